"""Does a real fleet behave as the simulated one?

Brokers of a real fleet fail in all the ways that the simulator knows, one after the other (see real_fleet).
Simulated: the same settings, by benchmarks.simulation, in many more rounds. Compared are the times
until a client's routes lack the broker, the times until it left the broker alone, and the sends that went
there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ..kit.figures import Figure, Outcome, Target, at_most, percentile
from ..kit.hosts import Host
from ..simulation import ClientFaults, FleetConfig, SharedRoutes, Traffic
from ..simulation.config import Kind
from .real_fleet import ISOLATION_S, SLOW_START_S, Fleet, Outage, Sample, Scene, measured
from .simulator import distance, only, played

_SEED: Final = 20_260
_AWAY_S: Final = 60.0
_FAR: Final = 0.25
"""Forty rounds of the same distribution are less than 0.26 apart from it in 99 of 100 runs."""

_ENOUGH: Final = 40
"""Rounds, from which on the distances are held against the target."""

FLEET: Final = Fleet()


@dataclass(frozen=True, slots=True)
class Subject:
    """One way to fail: as a scene of the real fleet, and as a kind of fault of the simulated one."""

    name: str
    kind: Kind
    rounds: int
    scene: Scene
    in_ms: bool = False
    """Whether milliseconds are compared: then it is alone on the machine, whose pauses are not simulated, and
    how fast agents are here is taken from the measured median."""

    asks: bool = False
    """Whether agents ask their brokers if they work."""


def _revive(host: Host) -> None:
    host.start_broker()
    host.start_agent()


def _readmit(host: Host) -> None:
    host.start_broker()
    host.resume()


_ASK: Final = (
    *("--hang-check", f"{FLEET.hang_check_s:g}"),
    *("--hang-deadline", f"{FLEET.hang_deadline_s:g}"),
    *("--hang-failures", str(FLEET.hang_failures)),
)
_DO_NOT_ASK: Final = ("--hang-check", "0")
_DRAIN: Final = ("--drain-wait", f"{FLEET.drain_s:g}")
_CRASH: Final = Scene(Host.kill_broker, Host.start_broker, refuses=True)
_HANG: Final = Scene(Host.hang, Host.wake, refuses=False)

SUBJECTS: Final = (
    Subject("broker killed", "crash", 40, _CRASH, in_ms=True),
    Subject("broker ended", "restart", 20, Scene(Host.end, _revive, refuses=True), in_ms=True),
    Subject(
        "broker drained",
        "restart",
        20,
        Scene(Host.kill_broker, _readmit, refuses=True, flags=_DRAIN, drains=True),
        in_ms=True,
    ),
    Subject("host lost", "lost", 40, Scene(Host.freeze, Host.thaw, refuses=False)),
    Subject("broker hangs, agents ask", "hang", 40, replace(_HANG, flags=_ASK), asks=True),
    Subject("broker hangs, nobody asks", "hang", 40, replace(_HANG, flags=_DO_NOT_ASK, lasts_s=3.0)),
    Subject("broker killed in an outage", "crash", 40, replace(_CRASH, outage=Outage(2.0))),
    Subject("broker killed in a longer outage", "crash", 24, replace(_CRASH, outage=Outage(5.0))),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    subjects: Sequence[Subject] = SUBJECTS
    rounds: int | None = None
    """Of each subject; None = as many as it says."""

    fleet: Fleet = field(default_factory=lambda: FLEET)


QUICK: Final = Size(rounds=5)


def run(size: Size) -> Outcome:
    """Measure and simulate; raises EmbeddedServerError, RuntimeError, and TimeoutError."""
    samples = _samples(size)
    figures: list[Figure] = []
    for subject in size.subjects:
        found = samples[subject.name]
        p50_s = percentile(found.avoid_s, 0.5) if subject.in_ms else None
        computed = simulated(size.fleet, subject, p50_s)
        is_held = _rounds(size, subject) >= _ENOUGH and not subject.in_ms
        figures += _compared(subject.name, found, computed, at_most(_FAR) if is_held else None)
    return Outcome(figures, _notes(size))


def _rounds(size: Size, subject: Subject) -> int:
    return subject.rounds if size.rounds is None else size.rounds


def _samples(size: Size) -> Mapping[str, Sample]:
    """Return what was measured, by subject: first those that want the machine for themselves."""

    def measure(subject: Subject) -> tuple[str, Sample]:
        return subject.name, measured(size.fleet, subject.scene, _rounds(size, subject))

    alone = [subject for subject in size.subjects if subject.in_ms]
    together = [subject for subject in size.subjects if not subject.in_ms]
    found = dict(map(measure, alone))
    with ThreadPoolExecutor(max_workers=max(1, len(together))) as pool:
        found.update(pool.map(measure, together))
    return found


def _notes(size: Size) -> Sequence[str]:
    fleet = size.fleet
    return [
        f"{fleet.brokers} brokers with agents; {fleet.clients} clients, {fleet.sends_per_s:g} sends/s each",
        f"lease {fleet.lease_ttl_s:g} s, heartbeat {fleet.heartbeat_s:g} s",
        f"a client leaves a broker alone for {ISOLATION_S:g} s after a failure",
        "distance: the largest difference of the shares below a value (Kolmogorov-Smirnov), 0 to 1",
        "the clients of a round share the moment of the last heartbeat: the sample is smaller than it looks",
        "killed, ended, drained: how fast agents are here (closed_s) is taken from the measured p50",
        "their tail is whole rounds that come late: pauses of the machine, which are not simulated",
        "the longer outage ends all leases; the store comes back with its data",
        "drained: from the order until nobody writes there, and sends after the broker's end",
        "the subjects after drained are measured side by side: they are compared in tenths of seconds",
    ]


def _compared(name: str, found: Sample, computed: Sample, target: Target | None) -> Iterator[Figure]:
    if found.avoid_s:
        yield from _figures(f"{name}, until routes lack it", found.avoid_s, computed.avoid_s, target)
    yield from _figures(f"{name}, until left alone", found.exposed_s, computed.exposed_s, target)
    title = f"{name}, misdirected sends"
    yield Figure(f"{title}, mean", "sends", [float(np.mean(found.misdirected))])
    yield Figure(f"{title}, mean (simulated)", "sends", [float(np.mean(computed.misdirected))])
    yield Figure(f"{title}, distance", "", [distance(found.misdirected, computed.misdirected)], target)


def _figures(
    name: str, found: Sequence[float], computed: Sequence[float], target: Target | None
) -> Iterator[Figure]:
    for share, title in ((0.5, "p50"), (0.9, "p90")):
        yield Figure(f"{name}, {title}", "ms", [percentile(found, share) * 1_000])
        yield Figure(f"{name}, {title} (simulated)", "ms", [percentile(computed, share) * 1_000])
    yield Figure(f"{name}, distance", "", [distance(found, computed)], target)


def simulated(fleet: Fleet, subject: Subject, p50_s: float | None = None) -> Sample:
    """Return what the simulator says of the same fleet, in many more rounds.

    `p50_s`: how soon clients know of a killed broker on this machine; None = as by default.
    """
    system = _system(fleet, subject, p50_s)
    config = FleetConfig(
        brokers=fleet.brokers,
        topics=1,
        clients=fleet.clients,
        hours=1_000.0,
        seed=_SEED,
        traffic=Traffic(
            sends_per_s=fleet.sends_per_s,
            topics_per_client=1,
            brokers_per_topic=fleet.brokers,
            timeout_s=fleet.timeout_s,
        ),
        faults=only(subject.kind, subject.scene.lasts_s or _AWAY_S),
        systems=(system,),
    )
    found = _sample(config, system, subject.scene.outage)
    if subject.scene.drains:
        # Times count from the order, sends from the end.
        drained = replace(system, drain_s=fleet.drain_s)
        found.misdirected = _sample(config, drained, None).misdirected
    return found


def _system(fleet: Fleet, subject: Subject, p50_s: float | None) -> SharedRoutes:
    faults = ClientFaults(isolation_s=ISOLATION_S, slow_start_s=SLOW_START_S, consecutive_failures=0)
    system = SharedRoutes(
        lease_ttl_s=fleet.lease_ttl_s,
        heartbeat_s=fleet.heartbeat_s,
        hang_check_s=fleet.hang_check_s if subject.asks else 0.0,
        hang_deadline_s=fleet.hang_deadline_s,
        hang_failures=fleet.hang_failures,
        reconnect_s=fleet.reconnect_s,
        rejoin_s=fleet.heartbeat_s,
        guard_hold_s=fleet.guard_hold_s,
        faults=None if subject.scene.drains else faults,
    )
    if p50_s is None:
        return system
    return replace(system, closed_s=max(0.0, p50_s - system.doorbell_s * math.log(2)))


def _sample(config: FleetConfig, system: SharedRoutes, outage: Outage | None) -> Sample:
    spared_s = outage.spared_s if outage else 0.0
    found = played(config, system, outage.lasts_s if outage else None, spared_s)
    known = np.isfinite(found.avoid_s)
    misdirected = [float(number) for number in found.misdirected]
    return Sample(found.avoid_s[known].tolist(), found.exposed_s.tolist(), misdirected)
