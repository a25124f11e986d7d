"""Strategies: in which order queues take turns, and how often each; users can write their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from ...registry.checks import check_broker_name, check_name
from ...registry.errors import InvalidInput
from ...registry.model import BrokerData, MessageQueue

_SHORT: Final = 1_024
_TURNS_EACH: Final = 4
_FINEST: Final = 20
"""Weights are taken as multiples of the smallest one, in steps of down to a twentieth of it."""

_STEEPEST: Final = 1e6
"""A weight below a millionth of the largest one counts as that: no schedule tells them apart."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a strategy puts in order."""

    queues: tuple[MessageQueue, ...]
    """Those to choose from now, at least one; sorted by broker name and queue id."""

    all_queues: tuple[MessageQueue, ...]
    """Every writable queue of the topic, including those of failing brokers."""

    brokers: Mapping[str, BrokerData] = field(hash=False)
    """The brokers of the topic by name."""


class Strategy(Protocol):
    """How the queues of a topic take turns; must be pure: the same candidates, the same answer."""

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        """Return the order of turns, which repeats; a queue stands there as often as it is to be chosen."""
        ...


def arranged(strategy: Strategy, candidates: Candidates) -> tuple[MessageQueue, ...]:
    """Return the turns a strategy gives; raise InvalidInput when there are none or one is no candidate."""
    turns = tuple(strategy.arrange(candidates))
    if turns == candidates.queues:
        return candidates.queues
    if not turns:
        raise InvalidInput(f"strategy {strategy!r}: it gave none of {len(candidates.queues)} queues a turn")
    foreign = set(turns) - set(candidates.queues)
    if foreign:
        raise InvalidInput(f"strategy {strategy!r}: {min(foreign)} is not a queue to choose from now")
    return turns


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Each queue once, by broker name and queue id (RocketMQ: TopicPublishInfo.selectOneMessageQueue)."""

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        """Return the candidates as they are."""
        return candidates.queues


@dataclass(frozen=True, slots=True)
class Weighted:
    """A queue of a broker with weight 2 gets two turns where one of a broker with weight 1 gets one.

    A weight of 0 takes a broker out, unless no other broker is left. Turns are spread evenly. Within one
    round of at most 1,024 turns, or four a queue if that is more, a queue of any other weight has at least
    one. Raises InvalidInput for a weight that is not a number, negative or not finite.
    """

    weights: Mapping[str, float] = field(hash=False)
    """Weights by broker name."""

    default: float = 1.0
    """The weight of the other brokers."""

    def __post_init__(self) -> None:
        _check_number("default", self.default, 0)
        for name, weight in self.weights.items():
            check_broker_name(name)
            _check_number(f"weights[{name!r}]", weight, 0)

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        """Return the queues of all brokers, interleaved by weight."""
        queues: dict[str, list[MessageQueue]] = {}
        for queue in candidates.queues:
            queues.setdefault(queue.broker_name, []).append(queue)
        weights = {name: self.weights.get(name, self.default) for name in queues}
        parts = [(queues[name], weight) for name, weight in weights.items() if weight > 0]
        return _interleaved(parts) if parts else candidates.queues


@dataclass(frozen=True, slots=True)
class ZoneAware:
    """Brokers of the own zone first; the others as far as too few queues of the own zone are left.

    A zone can carry all its traffic while the share of its queues that is left, times `overprovision`, is at
    least 1, and proportionally less below; the rest goes elsewhere, as far as the others can carry it.
    Source: the priority levels of Envoy, "Load balancing: Priority levels" in its documentation.
    Raises InvalidInput for a name that cannot be a zone's and for an `overprovision` below 1.
    """

    zone: str
    """The zone of this client (RocketMQ: zoneName of a broker)."""

    overprovision: float = 1.4
    """How much more than its share a queue can carry; with 1.4, nothing overflows until 29 % are lost."""

    inner: Strategy = RoundRobin()
    """Arranges the queues of the own zone, and those of the others."""

    def __post_init__(self) -> None:
        check_name("zone", self.zone)
        _check_number("overprovision", self.overprovision, 1)

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        """Return the queues of the own zone, interleaved with the others as far as it overflows."""
        own, others = self._part(candidates, own=True), self._part(candidates, own=False)
        if not own.queues or not others.queues:
            return arranged(self.inner, candidates)
        turns = arranged(self.inner, own)
        load = min(1.0, self._carries(own))
        if load == 1:
            return turns
        overflow = min(1 - load, self._carries(others))
        elsewhere = arranged(self.inner, others)
        return _interleaved([(turns, load / len(turns)), (elsewhere, overflow / len(elsewhere))])

    def _part(self, candidates: Candidates, *, own: bool) -> Candidates:
        names = {name for name, data in candidates.brokers.items() if (data.zone_name == self.zone) == own}
        return Candidates(
            tuple([queue for queue in candidates.queues if queue.broker_name in names]),
            tuple([queue for queue in candidates.all_queues if queue.broker_name in names]),
            candidates.brokers,
        )

    def _carries(self, part: Candidates) -> float:
        return self.overprovision * len(part.queues) / len(part.all_queues)


def _check_number(what: str, value: object, low: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput(f"{what}: expected a number, got {value!r}")
    if not math.isfinite(value) or value < low:
        raise InvalidInput(f"{what}: {value!r} is not a finite number of at least {low}")


def _interleaved(parts: Sequence[tuple[Sequence[MessageQueue], float]]) -> list[MessageQueue]:
    """Spread the turns of several parts evenly; a part has its queues and the weight of each of them."""
    rounds = _rounds([len(queues) for queues, _ in parts], [weight for _, weight in parts])
    turns = []
    for number, (queues, _) in enumerate(parts):
        count = rounds[number] * len(queues)
        turns += [((turn + 0.5) / count, number, queues[turn % len(queues)]) for turn in range(count)]
    turns.sort(key=lambda turn: turn[:2])
    return [queue for _, _, queue in turns]


def _rounds(sizes: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Return how often the queues of each part stand in a schedule: exactly by weight, if that fits."""
    from fractions import Fraction  # noqa: PLC0415 - 0.4 MB, which a client without weights never needs

    lightest = max(min(weights), max(weights) / _STEEPEST)
    exact = [Fraction(max(1.0, weight / lightest)).limit_denominator(_FINEST) for weight in weights]
    unit = math.lcm(*(share.denominator for share in exact))
    rounds = [int(share * unit) for share in exact]
    spare = max(_SHORT, _TURNS_EACH * sum(sizes)) - sum(sizes)  # beside the one turn of each queue
    wanted = sum(size * count for size, count in zip(sizes, rounds, strict=True))
    if wanted > spare + sum(sizes):
        rounds = [max(1, count * spare // wanted) for count in rounds]
    return rounds
