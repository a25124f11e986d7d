"""How many sends go to a broker that is away, and when a client's own fault memory leaves it alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from .draws import Floats, Ints
from .systems import ClientFaults

__all__ = ["Sends", "SlowStart", "misdirected"]

_STEPS: Final = 10


class Sends(NamedTuple):
    """For each pair of a client and a fault."""

    misdirected: Ints
    known_s: Floats
    """When the client knew of its first failed send, in seconds since the fault; inf = there was none."""


@dataclass(frozen=True, slots=True)
class SlowStart:
    """How much of its usual traffic a broker has had since its isolation ended.

    Its share of its turns grows in ten steps; the turns that it gives away are drawn again among all brokers
    of the topic, itself included. Source: sharedroutes.client (BrokerFaults.share, PublishView.pick).
    """

    times_s: Floats
    work_s: Floats
    """So much time with all of its turns would have brought as much traffic as that time has."""

    @classmethod
    def of(cls, faults: ClientFaults, brokers: int) -> SlowStart:
        """Return the slow start of a broker in topics with so many brokers."""
        share = np.maximum(faults.smallest_share, np.arange(_STEPS) / _STEPS)
        traffic = share * brokers / (brokers - 1 + share)
        times_s = np.arange(_STEPS + 1) * faults.slow_start_s / _STEPS
        return cls(times_s, np.concatenate([[0.0], np.cumsum(traffic * faults.slow_start_s / _STEPS)]))

    def work(self, time_s: Floats) -> Floats:
        """Return the work by a time since the isolation ended."""
        later_s = np.maximum(0.0, time_s - self.times_s[-1])
        return np.asarray(np.interp(time_s, self.times_s, self.work_s) + later_s)

    def time(self, work_s: Floats) -> Floats:
        """Return the time by which there was so much work."""
        later_s = np.maximum(0.0, work_s - self.work_s[-1])
        return np.asarray(np.interp(work_s, self.work_s, self.times_s) + later_s)


def misdirected(
    rng: np.random.Generator,
    rate_per_s: Floats,
    until_s: Floats,
    fails_after_s: Floats,
    faults: ClientFaults | None,
    brokers: int,
) -> Sends:
    """Play the sends to a broker from its fault on, until the client's routes lack it or it is back.

    `rate_per_s`: of the client to this broker; `fails_after_s`: from a send to its failure; `brokers`: of
    each topic. Without a fault memory, or without another broker to send to, they go on all the time.
    """
    if faults is None or brokers == 1:
        return Sends(rng.poisson(rate_per_s * until_s), np.full(len(until_s), np.inf))
    return _Memory(faults, brokers, rng, len(until_s)).play(rate_per_s, until_s, fails_after_s)


class _Memory:
    """Many clients that each remember one broker; a round takes all of them from one isolation to the next.

    In a round a client sends to the broker, which comes at a random moment; goes on doing so until that send
    has failed; and leaves the broker alone for as long as the failures of the round demand. Places on the
    scale of SlowStart make the sends of a round evenly distributed.
    """

    def __init__(self, faults: ClientFaults, brokers: int, rng: np.random.Generator, pairs: int) -> None:
        self._faults = faults
        self._rng = rng
        self._slow_start = SlowStart.of(faults, brokers) if faults.slow_start_s else None
        self._sends = np.zeros(pairs, dtype=np.int64)
        self._ejections = np.zeros(pairs, dtype=np.int64)
        self._known_s = np.full(pairs, np.inf)
        self._free_s = np.zeros(pairs)
        """When the broker is, or was, no longer left alone."""

        self._is_first = True

    def play(self, rate_per_s: Floats, until_s: Floats, fails_after_s: Floats) -> Sends:
        """Play all rounds."""
        pairs = np.flatnonzero(rate_per_s * until_s > 0)
        while len(pairs):
            first = self._rng.standard_exponential(len(pairs)) / rate_per_s[pairs]
            sent_s = self._time(pairs, first)
            here = sent_s < until_s[pairs]
            pairs, first, sent_s = pairs[here], first[here], sent_s[here]
            fails_s = fails_after_s[pairs]
            if self._is_first:
                self._known_s[pairs] = sent_s + fails_s
            last = self._work(pairs, np.minimum(sent_s + fails_s, until_s[pairs]))
            last = np.maximum(last, first)
            more = self._rng.poisson(rate_per_s[pairs] * (last - first))
            self._isolate(pairs, first, last, more, fails_s)
            self._is_first = False
            pairs = pairs[self._free_s[pairs] < until_s[pairs]]
        return Sends(self._sends, self._known_s)

    def _time(self, pairs: Ints, place: Floats) -> Floats:
        slow = self._slow_start is not None and not self._is_first
        return self._free_s[pairs] + (self._slow_start.time(place) if slow and self._slow_start else place)

    def _work(self, pairs: Ints, time_s: Floats) -> Floats:
        since_s = time_s - self._free_s[pairs]
        return self._slow_start.work(since_s) if self._slow_start and not self._is_first else since_s

    def _isolate(self, pairs: Ints, first: Floats, last: Floats, more: Ints, fails_s: Floats) -> None:
        """Take in the failures of a round: a send at `first`, and `more` of them between it and `last`."""
        faults = self._faults
        failed_s = self._time(pairs, first) + fails_s
        lapsed = np.floor((failed_s - self._free_s[pairs]) / faults.decay_s).astype(np.int64)
        ejections = np.maximum(0, self._ejections[pairs] - lapsed)
        # Which failure of the round ejects: 0 is the first. The others of it come while it is ejected.
        which = np.maximum(0, faults.consecutive_failures - self._sends[pairs] - 1)
        ejects = (which <= more) & (faults.consecutive_failures > 0)
        which = np.where(ejects, which, 0)
        at = self._place(first, last, which, more)
        rest = more - which
        newest = np.where(rest > 0, at + (last - at) * self._power(rest), at)
        free_s = self._time(pairs, newest) + fails_s + faults.isolation_s
        length_s = np.minimum(faults.base_isolation_s * (ejections + 1), faults.max_isolation_s)
        length_s *= 1 + faults.jitter_share * self._rng.random(len(pairs))
        ejected_s = self._time(pairs, at) + fails_s + length_s
        self._free_s[pairs] = np.where(ejects, np.maximum(free_s, ejected_s), free_s)
        self._ejections[pairs] = ejections + ejects
        self._sends[pairs] += 1 + more

    def _place(self, first: Floats, last: Floats, which: Ints, more: Ints) -> Floats:
        """Return where the `which`-th of `more` evenly distributed sends is; 0 = the one at `first`."""
        found = first.copy()
        later = np.flatnonzero(which > 0)
        share = self._rng.beta(which[later], more[later] - which[later] + 1)
        found[later] += (last[later] - first[later]) * share
        return found

    def _power(self, count: Ints) -> Floats:
        """Return where the last of so many sends is that are evenly distributed within 0..1."""
        return np.asarray(self._rng.random(len(count)) ** (1 / np.maximum(1, count)))
