"""Presets do what the producers of RocketMQ do: their values, and their choices against a model of each."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sharedroutes.client import (
    LADDER,
    LADDER_4,
    PRESETS,
    AttemptsFailed,
    BrokerRefused,
    ClientConfig,
    Ladder,
    NoRoute,
    RetryPolicy,
    RoundRobin,
    RouteClient,
)
from sharedroutes.client.detector import Detector
from sharedroutes.client.faults.broker import Result
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.client.selection import PublishView
from sharedroutes.registry import RouteStore, TopicConfig
from tests.client.topics import route_of
from tests.registry.builders import broker

RECORDED: Final = Path(__file__).parents[1] / "data" / "rocketmq-choices.txt"
NAMES: Final = "abcde"
FEW: Final = "abc"
"""So few that there are cases in which none is available, and none reachable either."""

ROCKETMQ: Final = [name for name in PRESETS if name != "sharedroutes"]


class Producer:
    """The fault memory of a client with a preset, and its view of a topic with a queue on each broker."""

    def __init__(self, preset: str, names: str = NAMES) -> None:
        config = PRESETS[preset].client.faults
        self.memory = FaultMemory(config, random.Random(1))
        self.view = PublishView(
            route_of(dict.fromkeys(names, 1)),
            RoundRobin(),
            itertools.count(),
            max_isolated_share=config.max_isolated_share,
            rules=config.rules if config.enabled else "sharedroutes",
        )
        self.rng = random.Random(2)

    def ended(self, name: str, latency_ms: int, now_ms: int, **outcome: Any) -> None:
        self.memory.record(name, Result(latency_ms / 1000, **outcome), now_ms / 1000)

    def chosen(self, now_ms: int, avoid: str = "") -> set[str]:
        """Return the brokers that take turns."""
        verdict = self.memory.verdict(now_ms / 1000)
        return {
            self.view.pick(verdict, frozenset(avoid), self.rng).broker_name for _ in range(self.view.size)
        }


# ---- values


@pytest.mark.parametrize("preset", ROCKETMQ)
def test_what_all_of_rocketmq_have(preset: str) -> None:
    found = PRESETS[preset]
    client, faults, policy = found.client, found.client.faults, found.client.policy
    assert (client.refresh_s, client.default_topic, client.default_topic_queues) == (30.0, "TBW102", 4)
    assert client.strategy == RoundRobin()
    assert (faults.consecutive_failures, faults.min_success_rate) == (0, 0)  # no ejection
    assert (faults.max_isolated_share, faults.slow_start_s) == (None, 0)  # no cap, no slow start
    assert (faults.detect_interval_s, faults.detect_timeout_s) == (2.0, 0.2)
    assert Detector(FaultMemory(faults), faults).wait_s(0.0) == 2.0  # without jitter
    assert (policy.retries, policy.deadline_s, policy.pause_s) == (2, 3.0, 0.0)
    assert (policy.retry_not_stored, policy.as_rocketmq) == (False, True)
    assert found.callbacks == RetryPolicy(
        retry_codes=frozenset(), pause_s=0.0, retry_not_stored=False, as_rocketmq=True
    )


@pytest.mark.parametrize(
    ("preset", "rules", "enabled", "detect"),
    [
        ("rocketmq-4", "rocketmq-4", False, False),
        ("rocketmq-4-latency", "rocketmq-4", True, False),
        ("rocketmq-5", "rocketmq-5", False, False),
        ("rocketmq-5-latency", "rocketmq-5", True, False),
        ("rocketmq-5-detector", "rocketmq-5", True, True),
        ("sharedroutes", "sharedroutes", True, False),
    ],
)
def test_fault_tolerance_is_on_where_the_name_says_so(
    preset: str, rules: str, *, enabled: bool, detect: bool
) -> None:
    faults = PRESETS[preset].client.faults
    assert (faults.rules, faults.enabled, faults.detect) == (rules, enabled, detect)


@pytest.mark.parametrize(
    ("preset", "ladder", "codes"),
    [
        ("rocketmq-4", LADDER_4, frozenset({1, 14, 16, 17, 204, 205})),
        ("rocketmq-5", LADDER, frozenset({1, 2, 14, 16, 17, 204, 205, 1500})),
    ],
)
def test_the_ladder_and_the_codes_of_each_release(preset: str, ladder: Ladder, codes: frozenset[int]) -> None:
    client = PRESETS[preset].client
    assert (client.faults.ladder, client.policy.retry_codes) == (ladder, codes)


def test_our_own_preset_is_the_default() -> None:
    own = PRESETS["sharedroutes"]
    assert (own.client, own.client.policy, own.callbacks) == (ClientConfig(), RetryPolicy(), RetryPolicy())


# ---- choices: models of LatencyFaultToleranceImpl and MQFaultStrategy, in milliseconds


@dataclass
class Item:
    latency: int = 0
    start: int = -1
    reachable: bool = True


@dataclass
class Strategy4:
    """4.9.7, enabled."""

    items: dict[str, Item] = field(default_factory=dict)

    def duration(self, latency: int) -> int:
        for least, ms in (
            (15_000, 600_000),
            (3_000, 180_000),
            (2_000, 120_000),
            (1_000, 60_000),
            (550, 30_000),
        ):
            if latency >= least:
                return ms
        return 0

    def update(self, name: str, latency: int, now: int, *, isolation: bool) -> None:
        self.items[name] = Item(latency, now + self.duration(30_000 if isolation else latency))

    def key(self, name: str) -> tuple[int, int]:
        return self.items[name].latency, self.items[name].start

    def check(self, chosen: set[str], now: int) -> None:
        available = {name for name in NAMES if name not in self.items or now >= self.items[name].start}
        event("some available" if available else "none available")
        if available:
            assert chosen == available
        else:  # pickOneAtLeast; of equal ones, either
            assert sorted(map(self.key, chosen)) == sorted(map(self.key, NAMES))[: len(NAMES) // 2]


@dataclass
class Strategy5:
    """5.3.3, enabled."""

    detector: bool
    items: dict[str, Item] = field(default_factory=dict)

    def duration(self, latency: int) -> int:
        for least, ms in ((15_000, 30_000), (5_000, 10_000), (3_000, 6_000), (1_800, 5_000), (550, 2_000)):
            if latency >= least:
                return ms
        return 0

    def update(self, name: str, latency: int, now: int, *, isolation: bool, reachable: bool) -> None:
        item = self.items.setdefault(name, Item())
        item.latency, item.reachable = latency, reachable
        duration = self.duration(10_000 if isolation else latency)
        if duration > 0 and now + duration > item.start:
            item.start = now + duration

    def check(self, chosen: set[str], last: str, now: int) -> None:
        others = {name for name in FEW if name != last}
        available = {name for name in others if name not in self.items or now >= self.items[name].start}
        reachable = {name for name in others if name not in self.items or self.items[name].reachable}
        event("available" if available else "reachable" if reachable else "any")
        assert chosen == (available or reachable or set(FEW))


LATENCIES: Final = st.sampled_from([1, 60, 550, 700, 999, 1_000, 1_800, 2_500, 3_000, 5_000, 14_999, 15_000])
ENDS: Final = st.sampled_from(["answered", "broken", "refused", "broken", "refused"])
PAUSES: Final = st.sampled_from([0, 0, 1, 500, 2_000, 4_999, 31_000])


def steps_of(names: str) -> st.SearchStrategy[list[tuple[str, int, str, int]]]:
    """Return who was tried, for how long, how that ended, and how long after the one before."""
    return st.lists(st.tuples(st.sampled_from(names), LATENCIES, ENDS, PAUSES), min_size=1, max_size=30)


def outcome(end: str) -> dict[str, Any]:
    """Return what attempts record of it."""
    return {"failed": end != "answered", "reachable": False if end == "refused" else None}


@given(steps=steps_of(NAMES), avoid=st.sampled_from(["", *NAMES]))
def test_rocketmq_4_with_fault_tolerance_chooses_as_its_source_says(
    steps: list[tuple[str, int, str, int]], avoid: str
) -> None:
    producer, model, now = Producer("rocketmq-4-latency"), Strategy4(), 0
    for name, latency, end, pause in steps:
        now += pause
        producer.ended(name, latency, now, **outcome(end))
        model.update(name, latency, now, isolation=end != "answered")
        model.check(producer.chosen(now, avoid), now)  # whoever was tried last


@pytest.mark.parametrize("preset", ["rocketmq-5-latency", "rocketmq-5-detector"])
@given(steps=steps_of(FEW), last=st.sampled_from(["", *FEW]), probed=st.sets(st.sampled_from(FEW)))
def test_rocketmq_5_with_fault_tolerance_chooses_as_its_source_says(
    preset: str, steps: list[tuple[str, int, str, int]], last: str, probed: set[str]
) -> None:
    producer, model, now = Producer(preset, FEW), Strategy5(detector=preset == "rocketmq-5-detector"), 0
    for name, latency, end, pause in steps:
        now += pause
        producer.ended(name, latency, now, **outcome(end))
        reachable = end == "answered" or (end == "broken" and not model.detector)
        model.update(name, latency, now, isolation=end != "answered", reachable=reachable)
        model.check(producer.chosen(now, last), last, now)
    for name in probed if model.detector else ():
        producer.memory.probed(name, reachable=True, now=now / 1000)
        if name in model.items:
            model.items[name].reachable = True
    model.check(producer.chosen(now, last), last, now)


def recorded() -> list[str]:
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_choices_are_those_that_the_classes_of_rocketmq_made() -> None:
    all_isolated = 0
    for line in recorded():
        preset, names, last, *attempts = line.split()
        producer = Producer(preset, names)
        for attempt in attempts:
            ended, _, choices = attempt.partition("=")
            name, latency, end = ended.split(":")
            producer.ended(name, int(latency), 0, **outcome(end))
            assert producer.chosen(0, last.strip("-")) == {*choices}, (line, attempt)
            all_isolated += len(producer.memory.verdict(0.0).blocked) == len(names)
    assert len(recorded()) == 240
    assert all_isolated > 100


def test_in_rocketmq_4_one_good_answer_ends_ten_minutes_and_in_5_it_does_not_end_ten_seconds() -> None:
    for preset, left_alone in (("rocketmq-4-latency", set()), ("rocketmq-5-latency", {"a"})):
        producer = Producer(preset)
        producer.ended("a", 3, 0, failed=True)
        assert producer.chosen(0) == {*NAMES} - {"a"}
        producer.ended("a", 3, 1_000, failed=False)
        assert producer.chosen(1_000) == {*NAMES} - left_alone


def test_in_rocketmq_5_a_broker_that_refused_comes_back_after_ten_seconds_though_nobody_probed_it() -> None:
    producer = Producer("rocketmq-5-detector")
    producer.ended("a", 3, 0, failed=True, reachable=False)
    assert producer.chosen(9_999) == {*NAMES} - {"a"}
    assert producer.chosen(10_000) == {*NAMES}
    assert not producer.memory.states(10.0)["a"].reachable


@pytest.mark.parametrize("preset", ["rocketmq-4", "rocketmq-5"])
def test_as_rocketmq_comes_only_the_last_broker_is_avoided(preset: str) -> None:
    producer = Producer(preset, "ab")
    for name in "abab":
        producer.ended(name, 60_000, 0, failed=True, reachable=False)
    assert producer.chosen(0) == {"a", "b"}
    assert producer.chosen(0, "a") == {"b"}
    assert producer.memory.quiet
    assert producer.memory.states(0.0)["a"].success_rate == 0  # it is known all the same


# ---- attempts


def test_a_client_with_a_preset_uses_its_policy_and_its_default_topic(
    redis_url: str, agent: RouteStore
) -> None:
    agent.register(broker("a", address="127.0.0.1:1"), [TopicConfig("TBW102", 8, 8)])
    agent.register(broker("b", address="127.0.0.1:2"), [TopicConfig("TBW102", 8, 8)])
    busy, tried = BrokerRefused(2), []

    def send(routes: RouteClient) -> None:
        for attempt in routes.attempts("new"):
            with attempt as queue:
                tried.append(queue)
                raise busy

    with RouteClient.from_url(redis_url, PRESETS["rocketmq-5"].client) as routes:
        with pytest.raises(AttemptsFailed) as failed:
            send(routes)
        assert failed.value.code == 2
        assert len(tried) == 3
        queues = {routes.select_queue("new") for _ in range(16)}
    assert {(queue.broker_name, queue.queue_id) for queue in queues} == set(itertools.product("ab", range(4)))
    # SYSTEM_BUSY is not tried again there.
    with (
        RouteClient.from_url(redis_url, PRESETS["rocketmq-4"].client) as routes,
        pytest.raises(BrokerRefused),
    ):
        send(routes)
    with RouteClient.from_url(redis_url, PRESETS["sharedroutes"].client) as routes, pytest.raises(NoRoute):
        routes.select_queue("new")
