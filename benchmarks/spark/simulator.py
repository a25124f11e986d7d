"""What the fleet simulator says, for comparison with what is real; and how far two samples are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ..simulation import (
    FaultModel,
    FleetConfig,
    Happening,
    NameServers,
    System,
    Traffic,
)
from ..simulation.clients import Population
from ..simulation.config import Kind
from ..simulation.faults import Faults, Outages
from ..simulation.learning import World
from ..simulation.tally import Played, play_block, world_of

_SEED: Final = 20_260
_LONG_S: Final = 600.0
_APART: Final = 10.0
_NONE: Final = Happening()
NOTHING: Final = FaultModel(crash=_NONE, hang=_NONE, lost=_NONE, restart=_NONE, store_outage=_NONE)


def only(kind: Kind, lasts_s: float) -> FaultModel:
    """Return a model in which nothing else happens, once an hour."""
    return replace(NOTHING, **{kind: Happening(per_hour=1.0, mean_s=lasts_s, fixed=True)})


def played(
    config: FleetConfig, system: System, outage_s: float | None = None, spared_s: float = 0.0
) -> Played:
    """Return what clients meet in all faults of a run.

    `outage_s`: each fault is in an outage of the store of this length, and not within `spared_s` of its
    beginning or end.
    """
    world = world_of(config)
    if outage_s is not None:
        world = _with_outages(world, outage_s, spared_s)
    return play_block(world, system, Population(config).met(world.faults, 0), 0)


def _with_outages(world: World, outage_s: float, spared_s: float) -> World:
    """Return the same faults, one outage around each, less those few whose outages would overlap."""
    faults, rng = world.faults, np.random.default_rng(world.config.seed)
    order = np.argsort(faults.began_s)
    began_s = faults.began_s[order] - rng.uniform(spared_s, outage_s - spared_s, len(faults))
    is_apart = np.diff(began_s, prepend=-np.inf) > _APART * outage_s
    is_apart &= np.diff(began_s, append=np.inf) > _APART * outage_s
    kept = np.sort(order[is_apart])
    broker = faults.broker[kept]
    first = np.searchsorted(broker, np.arange(world.config.brokers + 1))
    alone = Faults(broker, faults.kind[kept], faults.began_s[kept], faults.lasted_s[kept], first)
    return replace(world, faults=alone, outages=Outages(began_s[is_apart], began_s[is_apart] + outage_s))


def avoided_s(system: NameServers, kind: Kind) -> list[float]:
    """Return how soon the routes of clients lack brokers, in many more faults than can be measured."""
    config = FleetConfig(
        brokers=200,
        topics=200,
        clients=500,
        hours=20.0,
        seed=_SEED,
        traffic=Traffic(topics_per_client=1, brokers_per_topic=3),
        faults=only(kind, _LONG_S),
        systems=(system,),
    )
    found: list[float] = played(config, system).avoid_s.tolist()
    return found


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference of the shares of two samples below any value (Kolmogorov-Smirnov)."""
    points = np.unique([*one, *other])
    shares = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())
