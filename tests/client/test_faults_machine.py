"""Any results, probes, restarts, suspicions and pauses: the fault memory does what a simple model says."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sharedroutes.client.faults.broker import Result
from sharedroutes.client.faults.config import FaultConfig, Tuning
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.client.observers import Event
from sharedroutes.client.observers.events import BrokerIsolated, BrokerReturned
from tests.support import examples

NAMES = "ab"
# Latencies, and what the ladder makes of them.
LATENCIES_S = {0.01: 0.0, 2.0: 5.0, 20.0: 30.0}
FAILURE_S = 10.0
IN_A_ROW, MIN_RESULTS, BASE_S, MAX_S, DECAY_S, SLOW_START_S, SLOT_S = 3, 4, 8.0, 40.0, 16.0, 5.0, 2.0
LONG_S = 10_000.0


@dataclass
class Model:
    """One broker, told as a story: nothing is computed before it is asked for."""

    until: float = -inf
    unreachable_until: float = -inf
    ejected_until: float = -inf
    in_a_row: int = 0
    ejections: int = 0
    healthy_s: float = 0.0
    suspected: bool = False
    results: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def end(self) -> float:
        return max(self.until, self.unreachable_until)

    def pass_time(self, old: float, new: float) -> None:
        self.healthy_s += max(0.0, new - max(old, self.end))
        while self.ejections and self.healthy_s >= DECAY_S:
            self.healthy_s -= DECAY_S
            self.ejections -= 1

    def isolate(self, until: float) -> None:
        if until > self.until:
            self.until, self.healthy_s = until, 0.0

    def fail(self, now: float) -> None:
        self.in_a_row += 1
        self.results.append((now, False))
        self.isolate(now + FAILURE_S)
        if now >= self.ejected_until and (self.in_a_row >= IN_A_ROW or self.fails_mostly(now)):
            self.ejections += 1
            self.ejected_until = now + min(BASE_S * self.ejections, MAX_S)
            self.isolate(self.ejected_until)
            self.results.clear()

    def fails_mostly(self, now: float) -> bool:
        within = [good for moment, good in self.results if moment // SLOT_S > now // SLOT_S - 5]
        return len(within) >= MIN_RESULTS and sum(within) < len(within) / 2

    def succeed(self, latency_s: float, now: float) -> None:
        self.in_a_row, self.suspected = 0, False
        self.results.append((now, True))
        if LATENCIES_S[latency_s]:
            self.isolate(now + LATENCIES_S[latency_s])

    def set_reachable(self, now: float) -> None:
        self.unreachable_until = min(self.unreachable_until, now)

    def lose(self, now: float, *, detect: bool) -> None:
        until = now + MAX_S if detect else self.until
        if until > self.unreachable_until:
            self.unreachable_until, self.healthy_s = until, 0.0

    def share(self, now: float) -> float:
        if now >= self.end + SLOW_START_S:
            return 1.0
        return max(0.1, (now - self.end) // (SLOW_START_S / 10) / 10)


class FaultMemoryAgainstModel(RuleBasedStateMachine):
    names = st.sampled_from(NAMES)

    @initialize(detect=st.booleans(), watched=st.booleans())
    def begin(self, *, detect: bool, watched: bool) -> None:
        config = FaultConfig(
            consecutive_failures=IN_A_ROW,
            base_isolation_s=BASE_S,
            max_isolation_s=MAX_S,
            slow_start_s=SLOW_START_S,
            detect=detect,
        )
        self.told: list[Event] = []
        tuning = Tuning(5 * SLOT_S, MIN_RESULTS, DECAY_S, jitter_share=0.0)
        self.memory = FaultMemory(config, tell=self.told.append, tuning=tuning)
        self.detect = detect
        self.watched = watched  # otherwise, things happen between two looks
        self.now = 0.0
        self.models: dict[str, Model] = {}
        self.suspects: frozenset[str] = frozenset()
        self.started_at: dict[str, float] = {}

    def _model(self, name: str) -> Model:
        return self.models.setdefault(name, Model())

    @rule(name=names, latency_s=st.sampled_from(sorted(LATENCIES_S)))
    def answers(self, name: str, latency_s: float) -> None:
        self.memory.record(name, Result(latency_s, failed=False), self.now)
        self._model(name).succeed(latency_s, self.now)
        self._model(name).set_reachable(self.now)

    @rule(name=names, times=st.integers(1, 4), reachable=st.sampled_from([None, True, False]))
    def fails(self, name: str, times: int, *, reachable: bool | None) -> None:
        for _ in range(times):
            self.memory.record(name, Result(0.0, failed=True, reachable=reachable), self.now)
            self._model(name).fail(self.now)
            if reachable is False or (reachable is None and self.detect):
                self._model(name).lose(self.now, detect=self.detect)
            else:
                self._model(name).set_reachable(self.now)

    @rule(name=names)
    def is_started_anew(self, name: str) -> None:
        self.memory.forget(name, self.now)
        self.models.pop(name, None)
        self.started_at[name] = self.now

    @rule(name=names)
    def an_attempt_from_before_the_start_fails(self, name: str) -> None:
        if name in self.started_at:
            began_at = self.started_at[name] - 0.5
            self.memory.record(name, Result(0.0, failed=True, began_at=began_at), self.now)

    @rule(name=names, reachable=st.booleans())
    def is_probed(self, name: str, *, reachable: bool) -> None:
        self.memory.probed(name, reachable=reachable, now=self.now)
        if reachable and name in self.models:
            self.models[name].suspected = False
            self.models[name].set_reachable(self.now)

    @rule(names=st.frozensets(names))
    def others_suspect(self, names: frozenset[str]) -> None:
        self.memory.suspect(names)
        for name in names - self.suspects:
            self._model(name).suspected = True
        for name in self.suspects - names:
            self._model(name).suspected = False
        self.suspects = names

    @rule(seconds=st.sampled_from([0.25, 0.5, 2.0, 3.75, 8.0, 10.0, 16.0, 41.0]))
    def time_passes(self, seconds: float) -> None:
        for model in self.models.values():
            model.pass_time(self.now, self.now + seconds)
        self.now += seconds

    @rule()
    def somebody_chooses(self) -> None:
        verdict, models, now = self.memory.verdict(self.now), self.models, self.now
        blocked = {name for name, model in models.items() if model.end > now or model.suspected}
        assert set(verdict.blocked) == blocked
        assert len(verdict.blocked) == len(blocked)
        assert verdict.unreachable == {name for name in models if models[name].unreachable_until > now}
        shares = {name: model.share(now) for name, model in models.items() if name not in blocked}
        assert dict(verdict.shares) == {name: share for name, share in shares.items() if share < 1}
        assert self.memory.quiet == (not verdict.blocked and not verdict.shares)
        assert self._told_isolated() == {name for name, model in models.items() if model.end > now}
        badness = [(name in verdict.unreachable, max(models[name].end, now)) for name in verdict.blocked]
        assert badness == sorted(badness, reverse=True)

    @rule()
    def somebody_looks(self) -> None:
        states = self.memory.states(self.now)
        for name, model in self.models.items():
            if name not in states:  # it was but suspected, before the first result of all
                assert not model.results
                assert not model.suspected
                continue
            state = states[name]
            assert state.isolated_for_s == max(0.0, model.end - self.now)
            assert (state.reason is None) == (model.end <= self.now and not model.suspected)
            assert (state.ejections, state.consecutive_failures) == (model.ejections, model.in_a_row)

    @invariant()
    def quiet_means_that_nobody_is_restricted(self) -> None:
        ends = [model.end for model in self.models.values()]
        suspected = any(model.suspected for model in self.models.values())
        assert not self.memory.quiet or (not suspected and all(end <= self.now for end in ends))

    @invariant()
    def somebody_watches(self) -> None:
        if self.watched:
            self.somebody_chooses()

    def _told_isolated(self) -> set[str]:
        isolated: set[str] = set()
        for event in self.told:
            match event:
                case BrokerIsolated(name, _, for_s):
                    assert name not in isolated
                    assert for_s > 0
                    isolated.add(name)
                case BrokerReturned(name):
                    isolated.remove(name)
        return isolated

    def teardown(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.memory.suspect(frozenset())
        later = self.now + LONG_S
        assert self.memory.verdict(later).blocked == ()
        assert self.memory.quiet
        assert all(state.share == 1.0 for state in self.memory.states(later).values())
        assert self._told_isolated() == set()


TestFaultMemoryAgainstModel = FaultMemoryAgainstModel.TestCase
TestFaultMemoryAgainstModel.settings = settings(max_examples=examples(400), stateful_step_count=50)
