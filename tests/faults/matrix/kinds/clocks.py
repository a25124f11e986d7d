"""Faults of clocks: one process believes that it is an hour earlier or later, and changes its mind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from tests.cluster.test_clock import faketime_library
from tests.faults.matrix.kinds.kind import Effect, Site, fault
from tests.faults.matrix.settings import HEARTBEAT_S, LEASE_S

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
