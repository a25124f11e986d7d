"""In which order queues take turns, and how often each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client.selection import (
    Candidates,
    RoundRobin,
    Strategy,
    Weighted,
    ZoneAware,
    publish_queues,
)
from sharedroutes.registry import InvalidInput, MessageQueue
from tests.client.topics import route_of


def candidates(
    queues: Mapping[str, int], failing: str = "", zones: Mapping[str, str] | None = None
) -> Candidates:
    route = route_of(queues, zones)
    found = publish_queues(route)
    left = tuple(queue for queue in found if queue.broker_name not in failing)
    return Candidates(left, found, {data.broker_name: data for data in route.broker_datas})


def names(turns: Sequence[MessageQueue]) -> str:
    return "".join(queue.broker_name for queue in turns)


def shares(turns: Sequence[MessageQueue]) -> dict[str, Fraction]:
    return {name: Fraction(count, len(turns)) for name, count in Counter(names(turns)).items()}


def test_round_robin_takes_every_queue_once_in_order() -> None:
    given_ = candidates({"a": 2, "b": 1})
    assert tuple(RoundRobin().arrange(given_)) == given_.queues


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"a": 2}, "aba"),
        ({"a": 3, "b": 1}, "aaba"),
        ({"a": 0.3, "b": 0.1}, "aaba"),
        ({"a": 3, "b": 2}, "ababa"),
        ({"a": 1, "b": 1}, "ab"),
        ({"a": 0}, "b"),
        ({"a": 0, "b": 0}, "ab"),
    ],
)
def test_turns_follow_the_weights_and_are_spread(weights: dict[str, float], expected: str) -> None:
    assert names(Weighted(weights).arrange(candidates({"a": 1, "b": 1}))) == expected


def test_a_weight_is_that_of_each_queue_of_the_broker() -> None:
    turns = Weighted({"a": 2}).arrange(candidates({"a": 2, "b": 4}))
    assert shares(turns) == {"a": Fraction(1, 2), "b": Fraction(1, 2)}
    assert set(Counter(turns).values()) == {1, 2}


def test_brokers_that_are_not_named_have_the_default_weight() -> None:
    turns = Weighted({"a": 1}, default=3).arrange(candidates({"a": 1, "b": 1, "c": 1}))
    assert shares(turns) == {"a": Fraction(1, 7), "b": Fraction(3, 7), "c": Fraction(3, 7)}


WEIGHTS = st.one_of(st.integers(0, 10), st.floats(0.001, 1000))


@given(
    weights=st.dictionaries(st.sampled_from("abcde"), WEIGHTS),
    queues=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 70), min_size=1),
)
def test_a_schedule_is_bounded_even_within_a_broker_and_near_to_the_weights(
    weights: dict[str, float], queues: dict[str, int]
) -> None:
    given_ = candidates(queues)
    strategy = Weighted(weights)
    turns = strategy.arrange(given_)
    each = {name: weights.get(name, 1.0) for name in queues}
    wanted = {name: weight for name, weight in each.items() if weight > 0} or dict.fromkeys(each, 1.0)
    assert set(names(turns)) == set(wanted)
    assert len(turns) <= max(1024, 4 * len(given_.queues))
    for name in wanted:
        assert len({count for queue, count in Counter(turns).items() if queue.broker_name == name}) == 1
    count, total = len(given_.queues), sum(wanted[name] * queues[name] for name in wanted)
    error = 0.01 + count / (max(1024, 4 * count) - count)
    for name, share in shares(turns).items():
        assert float(share) == pytest.approx(wanted[name] * queues[name] / total, abs=error)


def test_weights_of_any_size_make_a_schedule() -> None:
    weights = {"a": 1e-300, "b": 1.0, "c": 2.0, "d": 1e-320}
    turns = Weighted(weights).arrange(candidates(dict.fromkeys("abcd", 1)))
    found = shares(turns)
    assert set(found) == set("abcd")
    assert float(found["c"] / found["b"]) == pytest.approx(2, rel=0.01)
    assert set(shares(Weighted({"a": 1e300, "b": 1e-300}).arrange(candidates({"a": 1, "b": 1})))) == {
        "a",
        "b",
    }


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_small_whole_weights_are_met_exactly_and_no_broker_waits_twice_its_due(weights: list[int]) -> None:
    each = dict(zip("abcde", weights, strict=False))
    turns = Weighted(each).arrange(candidates(dict.fromkeys(each, 1)))
    assert shares(turns) == {name: Fraction(weight, sum(weights)) for name, weight in each.items()}
    for name, share in shares(turns).items():
        places = [place for place, turn in enumerate(names(turns) * 2) if turn == name]
        assert max(later - sooner for sooner, later in pairwise(places)) <= 2 / share + len(each)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: Weighted({"a": -1}), r"weights\['a'\]: -1 is not a finite number of at least 0"),
        (lambda: Weighted({"a": float("nan")}), r"weights\['a'\]: nan"),
        (lambda: Weighted({"a": float("inf")}), r"weights\['a'\]: inf"),
        (lambda: Weighted({"a": True}), r"weights\['a'\]: expected a number, got True"),
        (lambda: Weighted({"a b": 1}), "brokerName: 'a b'"),
        (lambda: Weighted({}, default=-1), "default: -1"),
        (lambda: ZoneAware(""), "zone: ''"),
        (lambda: ZoneAware("z", overprovision=0.9), "overprovision: 0.9"),
    ],
)
def test_a_value_that_does_not_fit_is_named(bad: object, message: str) -> None:
    assert callable(bad)
    with pytest.raises(InvalidInput, match=message):
        bad()


ZONES = {"a": "z1", "b": "z1", "c": "z2", "d": "z2"}


@pytest.mark.parametrize(
    ("zone", "failing", "turns"),
    [("z1", "", "aabb"), ("z9", "", "aabbccdd"), ("z1", "ab", "ccdd"), ("z1", "acd", "bb")],
    ids=["it is well", "it has no broker", "it fails altogether", "it alone is left"],
)
def test_a_client_stays_in_its_zone_while_that_has_brokers(zone: str, failing: str, turns: str) -> None:
    given_ = candidates(dict.fromkeys("abcd", 2), failing, ZONES)
    assert names(ZoneAware(zone).arrange(given_)) == turns


@pytest.mark.parametrize(
    ("own_left", "others_left", "own_share"),
    [
        (10, 10, 1.0),
        (8, 10, 1.0),
        (5, 10, 0.70),
        (2, 10, 0.28),
        (2, 2, 0.50),
        (5, 1, 0.70 / 0.84),
    ],
)
def test_what_the_own_zone_cannot_carry_flows_to_the_others_as_far_as_they_can(
    own_left: int, others_left: int, own_share: float
) -> None:
    own, others = [f"o{n}" for n in range(10)], [f"x{n}" for n in range(10)]
    given_ = candidates(dict.fromkeys(own + others, 1), "", dict.fromkeys(own, "z1"))
    left = tuple(
        queue for queue in given_.queues if queue.broker_name in own[:own_left] + others[:others_left]
    )
    turns = ZoneAware("z1").arrange(Candidates(left, given_.all_queues, given_.brokers))
    found = sum(queue.broker_name.startswith("o") for queue in turns) / len(turns)
    assert found == pytest.approx(own_share, abs=0.01)


def test_overflow_is_spread_over_the_turns() -> None:
    turns = ZoneAware("z1").arrange(candidates(dict.fromkeys("abcd", 1), "a", ZONES))
    run = max(len(stretch) for stretch in names(turns).replace("c", " ").replace("d", " ").split())
    assert run <= 4  # 70 % stay: never many in a row


def test_weights_hold_within_each_zone() -> None:
    strategy = ZoneAware("z1", inner=Weighted({"a": 3}))
    assert shares(strategy.arrange(candidates(dict.fromkeys("abcd", 1), "", ZONES))) == {
        "a": Fraction(3, 4),
        "b": Fraction(1, 4),
    }


def test_zones_nest_so_that_a_region_comes_before_the_rest_of_the_world() -> None:
    zones = {"a": "z1", "b": "z2", "c": "z3"}
    strategy = ZoneAware("z1", inner=ZoneAware("z2"))
    given_ = candidates(dict.fromkeys("abc", 1), "a", zones)
    assert set(names(strategy.arrange(given_))) == {"b"}


class Nothing:
    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        return candidates.queues[:0]


def test_an_inner_strategy_that_gives_nobody_a_turn_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"strategy <.*Nothing"):
        ZoneAware("z1", inner=Nothing()).arrange(candidates(dict.fromkeys("abcd", 1), "", ZONES))


@pytest.mark.parametrize("strategy", [RoundRobin(), Weighted({"a": 2}), ZoneAware("z1")])
def test_strategies_are_values(strategy: Strategy) -> None:
    assert strategy == eval(repr(strategy))  # noqa: S307
    assert hash(strategy) == hash(eval(repr(strategy)))  # noqa: S307
