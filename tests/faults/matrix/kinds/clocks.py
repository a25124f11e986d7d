"""Faults of clocks: a process or the store believes that it is an hour earlier or later, for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.cluster.test_clock import faketime_library, write_start
from tests.faults.checker.history import STORE, now_us
from tests.faults.matrix.auditor import KEYS
from tests.faults.matrix.kinds.kind import Effect, Site, connections_of, fault
from tests.faults.matrix.settings import BOUNDS, HEARTBEAT_S, LEASE_S, ON
from tests.faults.matrix.stores import LastingServer, Store
from tests.proxy import FaultyProxy

HOUR_S: Final = 3_600
"""By so much a clock is shifted."""

_CACHED_S: Final = 1.0
"""So long after the shift a process may still see the time of before."""

_UNSEEN_S: Final = LEASE_S + _CACHED_S + 2 * HEARTBEAT_S
_LASTS_S: Final = (_UNSEEN_S + 0.5, _UNSEEN_S + 3.5)
"""Longer than it takes until the lease of an agent has ended that renews it no more."""

_SLEEP: Final = (
    "import select, time\ntime.sleep = lambda seconds: select.select((), (), (), seconds) and None\n"
)
"""faketime takes the end of a sleep, by the monotonic clock, for a time of the wall clock, and refuses it."""


def _shifted(site: Site, first_s: int) -> Iterator[Effect]:
    fleet = site.fleet
    of = {**fleet.agents, **fleet.fronts, **fleet.clients}
    victim = of[site.rng.choice(sorted(of))]
    time_file = fleet.folder / f"{victim.name}.time"
    time_file.write_text("+0\n")
    start = fleet.folder / "clocks"
    start.mkdir(exist_ok=True)
    (start / "sitecustomize.py").write_text(_SLEEP)
    faked = {
        "PYTHONPATH": os.pathsep.join((str(start), victim.environment["PYTHONPATH"])),
        "LD_PRELOAD": faketime_library(),
        "FAKETIME_TIMESTAMP_FILE": str(time_file),
        "FAKETIME_CACHE_DURATION": f"{_CACHED_S:.0f}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    before = dict(victim.environment)
    victim.kill()
    victim.environment |= faked
    site.start(victim)
    time_file.write_text(f"{first_s:+d}\n")
    try:
        yield Effect(
            victim.name, site.lasts(_LASTS_S), restarts=(victim.name,), details={"shifted_s": first_s}
        )
    finally:
        time_file.write_text(f"{-first_s:+d}\n")
        victim.kill()
        victim.environment.clear()
        victim.environment |= before
        site.start(victim)


@fault("processes")
def clock_ahead(site: Site) -> Iterator[Effect]:
    """The clock of a process goes an hour ahead while it runs."""
    return _shifted(site, HOUR_S)


@fault("processes")
def clock_behind(site: Site) -> Iterator[Effect]:
    """The clock of a process goes an hour back while it runs."""
    return _shifted(site, -HOUR_S)


_RENEWED_S: Final = 2 * HEARTBEAT_S
_SWEPT_S: Final = 1.0
_OUT_S: Final = (BOUNDS.fronts_ms + BOUNDS.stale_ms) / 1_000
_STAYS_OUT_S: Final = (_OUT_S + 1.0, _OUT_S + 2.5)


def _comes_back_empty(store: Store) -> bool:
    return not (store.can_fail_over or store.keeps_data)


@contextmanager
def _shifted_store(site: Site) -> Iterator[None]:
    """Let the store begin anew, with a clock that goes back an hour when all brokers are there again."""
    (server,) = site.store.servers
    assert isinstance(server, LastingServer)
    time_file, start = site.fleet.folder / "store.time", site.fleet.folder / "store.start"

    def shifted(binary: str) -> str:
        write_start(start, binary, time_file, "FAKETIME_DONT_FAKE_MONOTONIC=1")
        return str(start)

    owners = {name: site.auditor.lease(name) for name in ON}

    def are_new() -> bool:
        return all(site.auditor.lease(name) not in (None, owner) for name, owner in owners.items())

    time_file.write_text(f"{HOUR_S:+d}\n")
    site.store.kill(server)
    before = server.run_as(shifted)
    try:
        site.store.revive(server)
        site.wait_at_most(3 * LEASE_S, are_new, "all brokers are back")
        is_swept = ("EXISTS", KEYS.sweeper)
        site.wait_at_most(3 * LEASE_S, lambda: site.auditor.at_primary(is_swept) == [1], "somebody sweeps")
        site.let_pass(_SWEPT_S, "who sweeps has seen the clock")
        time_file.write_text("+0\n")
        yield
    finally:
        site.store.kill(server)
        server.run_as(lambda _: before)
        site.store.revive(server)


@fault("store", on=_comes_back_empty)
def store_clock_behind(site: Site) -> Iterator[Effect]:
    """The store begins anew, its clock goes an hour back, and then an agent does not reach it any more."""
    began_us, agent = now_us(), site.fleet.agents["agent-a"]
    with _shifted_store(site):
        site.let_pass(_RENEWED_S, "agents renew their leases")
        takes_us = now_us()
        with site.store.network(FaultyProxy.refusing, connections_of(agent)):
            yield Effect(
                "broker-a",
                site.lasts(_STAYS_OUT_S),
                (STORE, agent.name, "broker-a"),
                ("broker-a",),
                loses=True,
                began_us=began_us,
                takes_us=takes_us,
            )
