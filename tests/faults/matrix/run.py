"""One run on one store: a fault begins and ends, and then the run waits until all see what is true."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Self

from msgspec.structs import replace

from demo.processes import Patience
from tests.faults.checker.history import Behind, Expected, Fault, Log, Run, Writer, now_us
from tests.faults.matrix.aftermath import write_keys, write_logs
from tests.faults.matrix.auditor import Auditor
from tests.faults.matrix.fleet import CHURN, Fleet
from tests.faults.matrix.kinds.kind import Effect, Kind, Site
from tests.faults.matrix.schedule import rounds
from tests.faults.matrix.settings import BOUNDS, LEASE_S
from tests.faults.matrix.stores import STORES, Store
from tests.faults.matrix.views import Views
from tests.faults.matrix.watcher import Watcher
from tests.faults.matrix.watchers import Watchers
from tests.faults.victims import Ended

READY_S: Final = 90.0
"""Within so long everything has started, on a machine that does other things besides."""

_GIVE_UP_S: Final = 90.0
"""A view that is not true so long after a fault is not waited for: the checker has what it said."""

_SAY_S: Final = 5.0
_CHURN_S: Final = 1.0
_CHURNING: Final = 20
"""So many topics there are besides, of which one goes and one comes each time."""

Tell = Callable[[str], None]


class NotReady(Exception):
    """The processes do not come to work together in the first place."""


@dataclass(slots=True)
class Outcome:
    """What became of one round."""

    kinds: tuple[str, ...]
    began_us: int
    converged_s: float | None
    """After the end of the fault; None = not at all."""


@dataclass(slots=True)
class Told:
    """What a run has done."""

    deployment: str
    folder: Path
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def history(self) -> Path:
        """Where its history is."""
        return self.folder / "history"


class StoreRun:
    """The processes on one store, for the length of a `with` block."""

    def __init__(
        self,
        deployment: str,
        folder: Path,
        seed: int,
        patience: Patience,
        tell: Tell,
        *,
        churns: bool = False,
    ) -> None:
        """`churns`: topics come and go all the time."""
        self.told = Told(deployment, folder)
        self._seed = seed
        self._patience = patience
        self._tell = tell
        self._churns = churns
        self._numbers = count()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _begin(self, stack: ExitStack) -> None:
        folder = self.told.folder
        self.told.history.mkdir(parents=True)
        self._tell("starting the servers")
        stores = folder / "store"
        stores.mkdir()
        self._driver = stack.enter_context(Writer(self.told.history, "driver"))
        self._scheduler = stack.enter_context(Writer(self.told.history, "scheduler"))
        audited = stack.enter_context(Writer(self.told.history, "auditor"))
        self._began_us = now_us()
        self._driver.write(Run(deployment=self.told.deployment, seed=self._seed, bounds=BOUNDS))
        self._store: Store = stack.enter_context(STORES[self.told.deployment](stores))
        self._tell("starting brokers, agents, fronts and clients")
        self._fleet = stack.enter_context(Fleet(self._store, folder, self._driver))
        self._auditor = stack.enter_context(Auditor(self._store, audited))
        self._watchers = stack.enter_context(Watchers(self._fleet, self._driver))
        self._views = Views(self._fleet, self._watchers, self._auditor)
        stack.callback(self._views.close)
        if self._calm("everything works", READY_S) is None:
            raise NotReady(f"{self.told.deployment}: not within {READY_S:.0f} s")
        self._scheduler.write(Expected(table=self._fleet.expected()))
        if self._churns:
            self._churning = stack.enter_context(ExitStack())
            self._churning.enter_context(Watcher("churn", _CHURN_S, self._churn))

    def _churn(self) -> None:
        """Let some topics come, and others go."""
        number = next(self._numbers)
        self._fleet.churn = tuple(f"{CHURN}{of}" for of in range(number, number + _CHURNING))
        self._fleet.write_topics()

    def _settle(self) -> None:
        """Let no topics come and go any more, and wait until everybody knows."""
        self._churning.close()
        self._fleet.churn = ()
        self._fleet.write_topics()
        self._calm("the end", _GIVE_UP_S)

    def go(self, kinds: Sequence[Kind], until_s: float, at_least: int) -> Told:
        """Break things until a time of the monotonic clock, and so many times at least.

        It is over, and goes into the history, when a process ends by itself.
        """
        try:
            self._break(kinds, until_s, at_least)
            self._finish()
        except Ended as error:
            ended = f"it ended by itself with {error.exit_code}"
            self._tell(f"{error.process}: {ended}")
            self._driver.write(Log(process=error.process, level="CRITICAL", text=ended))
        write_logs(self._fleet.logs, self._driver, self._began_us)
        return self.told

    def _break(self, kinds: Sequence[Kind], until_s: float, at_least: int) -> None:
        self._watchers.take_usage("before")
        possible = [kind for kind in kinds if kind.on(self._store)]
        for number, (rng, chosen) in enumerate(rounds(self._seed, self.told.deployment, possible)):
            if number >= at_least and time.monotonic() >= until_s:
                break
            site = Site(self._store, self._fleet, self._auditor, rng, self._wait)
            self._round(site, chosen, until_s)

    def _round(self, site: Site, chosen: Sequence[Kind], until_s: float) -> None:
        names, began_us, rests_s = tuple(kind.name for kind in chosen), now_us(), 0.0
        with ExitStack() as stack:
            for kind in chosen:
                effect = stack.enter_context(self._broken(site, kind))
                left = max(0.0, until_s - time.monotonic())
                self._tell(
                    f"{' and '.join(names)}: {effect.target}, {effect.lasts_s:.1f} s; {left:.0f} s left"
                )
                self._pass(effect.lasts_s)
                rests_s = max(rests_s, effect.rests_s)
        converged_s = self._calm(f"calm after {' and '.join(names)}", _GIVE_UP_S)
        self.told.outcomes.append(Outcome(names, began_us, converged_s))
        self._pass(rests_s)

    @contextmanager
    def _broken(self, site: Site, kind: Kind) -> Iterator[Effect]:
        """Let a fault be for the length of a block, and write down when it began and ended."""
        began_us = now_us()
        with ExitStack() as ends, kind.begin(site) as effect:
            began_us = effect.began_us or began_us
            event = Fault(
                name=kind.name,
                target=effect.target,
                phase="begin",
                details=effect.details,
                disturbs=effect.disturbs,
                restarts=effect.restarts,
                loses=effect.loses,
            )
            self._scheduler.write(replace(event, at_us=began_us))
            if effect.takes or effect.removes:
                self._fleet.taken += Counter((*effect.takes, *effect.removes))
                taken_us = effect.takes_us or began_us
                self._scheduler.write(Expected(at_us=taken_us, table=self._fleet.expected()))
            ends.callback(self._end, event, effect)
            yield effect

    def _end(self, event: Fault, effect: Effect) -> None:
        self._fleet.taken -= Counter((*effect.takes, *effect.removes))
        self._scheduler.write(replace(event, phase="end", at_us=0))
        self._scheduler.write(Expected(table=self._fleet.expected()))

    def _pass(self, seconds: float) -> None:
        """Let time pass, in which all goes on."""
        end_s = time.monotonic() + seconds

        def over() -> bool:
            self._check()
            return time.monotonic() >= end_s

        self._patience.until(over, seconds + _GIVE_UP_S)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        if self._patience.until(condition, _GIVE_UP_S) is None:
            raise TimeoutError(f"{self.told.deployment}: not within {_GIVE_UP_S:.0f} s: {what}")

    def _calm(self, what: str, within_s: float) -> float | None:
        """Wait until all see what is true; return how long it took, or None if that is not so in time."""
        began_us, began_s, said_s = now_us(), time.monotonic(), 0.0

        def calm() -> bool:
            nonlocal said_s
            self._check()
            behind = next(self._views.behind(began_us), None)
            if behind is not None and time.monotonic() - said_s >= _SAY_S:
                said_s = time.monotonic()
                self._tell(f"{what}: {behind} is behind, for {said_s - began_s:.0f} s")
            return behind is None

        at_s = self._patience.until(calm, within_s)
        if at_s is not None:
            return at_s - began_s
        behind = "; ".join(self._views.behind(began_us))
        self._tell(f"{what}: given up, {behind} is behind")
        self._driver.write(Behind(whose=behind, since_us=began_us))
        return None

    def _check(self) -> None:
        """Raise what ended a part of ours, and Ended for a process that was to run."""
        self._auditor.check()
        self._watchers.check()
        for program in self._fleet:
            program.check_alive()

    def _finish(self) -> None:
        """Write down what is left in the end."""
        if self._churns:
            self._settle()
        self._tell("looking at what is left")
        self._pass(LEASE_S + 1.0)  # whoever says that it owns a broker may be wrong for a lease
        self._patience.until(self._watchers.have_returned, BOUNDS.converge_ms / 1_000)
        self._views.write_tables(self._driver)
        write_keys(self._store, self._driver)
