"""The vectorised simulator gives the distributions that single clients with single sends give."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchmarks.simulation import (
    ClientFaults,
    FaultModel,
    FleetConfig,
    Happening,
    NameServers,
    SharedRoutes,
    System,
    Traffic,
)
from benchmarks.simulation.clients import Population
from benchmarks.simulation.config import Kind
from benchmarks.simulation.draws import Floats
from benchmarks.simulation.systems import (
    ROCKETMQ_4_FAULTS,
    ROCKETMQ_5_FAULTS,
    SHAREDROUTES_UNASKED,
)
from benchmarks.simulation.tally import Played, play_block, world_of
from tests.simulation.single_sends import Case, Seen, play

CLIENTS = 400
SAMPLE = 1_200
NONE = Happening()


@dataclass(frozen=True)
class Scene:
    """A kind of fault, a system, and traffic."""

    name: str
    kind: Kind
    system: System
    lasted_s: float = 100.0
    sends_per_s: float = 1.5
    brokers: int = 3


_QUICK_FAULTS = ClientFaults(
    isolation_s=3.0, base_isolation_s=3.0, max_isolation_s=9.0, decay_s=6.0, slow_start_s=4.0
)
_UNASKED_QUICK = SharedRoutes(hang_check_s=0.0, faults=_QUICK_FAULTS)
SCENES = (
    Scene("a killed broker, and clients that poll", "crash", NameServers()),
    Scene("a lost host, until a scan or the idle time", "lost", NameServers(), 200.0),
    Scene("a lost host, ten seconds between scans", "lost", NameServers(scan_s=10.0, traffic_s=30.0), 200.0),
    Scene("a hang, ten seconds after a failure", "hang", ROCKETMQ_5_FAULTS, 150.0),
    Scene("a killed broker, ten seconds after a failure", "crash", ROCKETMQ_5_FAULTS),
    Scene("a hang, ten minutes after a failure", "hang", ROCKETMQ_4_FAULTS, 150.0),
    Scene("topics on one broker, which RocketMQ never gives up", "lost", ROCKETMQ_5_FAULTS, 20.0, brokers=1),
    Scene("a killed broker, and doorbells", "crash", SharedRoutes(), sends_per_s=200.0),
    Scene("a killed broker, half of the doorbells lost", "crash", SharedRoutes(doorbell_lost_share=0.5)),
    Scene("a lost host, leases and fault memory", "lost", SharedRoutes()),
    Scene("a lost host, no fault memory", "lost", SharedRoutes(faults=None), brokers=2),
    Scene("a lost host, topics on one broker", "lost", SharedRoutes(), brokers=1),
    Scene("a hang that no agent looks for", "hang", SHAREDROUTES_UNASKED, 200.0),
    Scene("the same, many sends", "hang", SHAREDROUTES_UNASKED, 120.0, sends_per_s=12.0, brokers=2),
    Scene("the same, few sends", "hang", _UNASKED_QUICK, 120.0, sends_per_s=0.5),
    Scene("the same, another memory", "hang", _UNASKED_QUICK, 60.0, sends_per_s=4.0),
    Scene("a hang that an agent looks for", "hang", SharedRoutes()),
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_distributions_are_those_of_single_sends(scene: Scene) -> None:
    simulated = _simulated(scene)
    rng = random.Random(20_260)
    case = Case(
        scene.kind,
        scene.lasted_s,
        scene.sends_per_s,
        scene.brokers,
        0.001 if scene.kind == "crash" else 3.0,
    )
    seen = [play(rng, scene.system, case) for _ in range(SAMPLE)]
    _assert_alike(scene, simulated, seen)


def _simulated(scene: Scene) -> Played:
    """Return a run in which hardly any two clients meet the same fault: they share nothing."""
    one = Happening(per_hour=2.0, mean_s=scene.lasted_s, fixed=True)
    config = FleetConfig(
        brokers=4_000,
        topics=100_000,
        clients=CLIENTS * 3 // scene.brokers,
        hours=1.0,
        seed=7,
        traffic=Traffic(sends_per_s=scene.sends_per_s, topics_per_client=1, brokers_per_topic=scene.brokers),
        faults=replace(_nothing(), **{scene.kind: one}),
        systems=(scene.system,),
    )
    world = world_of(config)
    met = Population(config).met(world.faults, 0)
    assert len(met) > SAMPLE
    return play_block(world, scene.system, met, 0)


def _nothing() -> FaultModel:
    return FaultModel(crash=NONE, hang=NONE, lost=NONE, restart=NONE, store_outage=NONE)


def _assert_alike(scene: Scene, simulated: Played, seen: Sequence[Seen]) -> None:
    pairs = (
        (simulated.avoid_s, [one.avoid_s for one in seen]),
        (simulated.exposed_s, [one.exposed_s for one in seen]),
        (simulated.misdirected.astype(np.float64), [float(one.misdirected) for one in seen]),
    )
    for mine, theirs in pairs:
        distance = _distance(mine, np.array(theirs))
        bound = 1.95 * ((len(mine) + len(seen)) / (len(mine) * len(seen))) ** 0.5
        assert distance < bound, scene.name


def _distance(one: Floats, other: Floats) -> float:
    """Return the largest difference of two distributions (Kolmogorov-Smirnov); 1.95 is one in a thousand."""
    points = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())
