"""The parts of the fleet simulator, without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation import (
    SYSTEMS,
    ClientFaults,
    FaultModel,
    FleetConfig,
    Happening,
    NameServers,
    SharedRoutes,
    System,
    Traffic,
)
from benchmarks.simulation.clients import Population, block_size, blocks
from benchmarks.simulation.config import KINDS
from benchmarks.simulation.draws import Floats, Purpose, generator, uniform
from benchmarks.simulation.faults import Outages, draw_faults, draw_outages
from benchmarks.simulation.learning import World, avoid_s
from benchmarks.simulation.results import (
    faults_table,
    histogram_table,
    quantiles_table,
    totals_table,
)
from benchmarks.simulation.sketch import EDGES, Sketch, quantile
from benchmarks.simulation.tally import Played, Tally, play, play_block, world_of
from sharedroutes.pipeline.errors import BadOption

NONE = Happening()
OFTEN = Happening(per_hour=0.5, mean_s=90.0)
BUSY = FaultModel(crash=OFTEN, hang=OFTEN, lost=OFTEN, restart=OFTEN, store_outage=Happening(per_hour=2.0))
FLEET = FleetConfig(brokers=20, topics=200, clients=300, hours=5.0, faults=BUSY)


def only(kind: str, **settings: Any) -> FaultModel:
    """Return a model in which nothing else happens."""
    nothing = FaultModel(crash=NONE, hang=NONE, lost=NONE, restart=NONE, store_outage=NONE)
    return replace(nothing, **{kind: Happening(**settings)})


def played(config: FleetConfig, system: System, outages: Outages | None = None) -> tuple[World, Played]:
    """Play the first block of clients."""
    world = world_of(config)
    world = World(config, world.faults, outages or world.outages)
    met = Population(config).met(world.faults, 0)
    return world, play_block(world, system, met, 0)


# --- what happens -------------------------------------------------------------------------------------------


def test_a_broker_has_one_fault_at_a_time() -> None:
    faults = draw_faults(FLEET)
    same = np.flatnonzero(np.diff(faults.broker) == 0)
    assert len(same) > 100
    assert (faults.began_s[same] + faults.lasted_s[same] <= faults.began_s[same + 1]).all()
    assert (faults.began_s < FLEET.duration_s).all()
    for broker in range(FLEET.brokers):
        assert (faults.broker[faults.first[broker] : faults.first[broker + 1]] == broker).all()


def test_faults_come_as_often_and_last_as_long_as_they_are_said_to() -> None:
    rates = {"crash": 0.1, "hang": 0.2, "lost": 0.3, "restart": 0.4}
    model = FaultModel(
        **{kind: Happening(per_hour=rate, mean_s=30.0, fixed=kind == "hang") for kind, rate in rates.items()}
    )
    config = FleetConfig(brokers=5_000, hours=4.0, faults=model)
    faults = draw_faults(config)
    alive_hours = 5_000 * 4.0 - faults.lasted_s.sum() / 3_600
    for number, kind in enumerate(KINDS):
        of_kind = faults.kind == number
        expected = rates[kind] * alive_hours
        assert abs(of_kind.sum() - expected) < 4 * expected**0.5
        assert faults.lasted_s[of_kind].mean() == pytest.approx(30.0, rel=0.1)
    assert set(faults.lasted_s[faults.kind == KINDS.index("hang")]) == {30.0}


def test_what_happens_to_some_brokers_does_not_depend_on_how_many_others_there_are() -> None:
    few = draw_faults(replace(FLEET, brokers=4_096))
    more = draw_faults(replace(FLEET, brokers=5_000))
    assert np.array_equal(few.began_s, more.began_s[: len(few)])


def test_outages_do_not_overlap() -> None:
    outages = draw_outages(replace(FLEET, hours=200.0))
    assert len(outages) > 200
    assert (outages.began_s[1:] >= outages.ended_s[:-1]).all()


# --- who meets it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.0, 1.1])
def test_clients_meet_the_faults_of_the_brokers_of_their_topics(exponent: float) -> None:
    traffic = Traffic(topics_per_client=4, brokers_per_topic=3, zipf_exponent=exponent)
    config = replace(FLEET, clients=40, traffic=traffic)
    faults, population = draw_faults(config), Population(config)
    topics = population.topics(generator(config.seed, Purpose.TOPICS, 0), 40)
    expected: dict[tuple[int, int], int] = {}
    for client in range(40):
        for topic in topics[client]:
            brokers = population.brokers(np.array([topic]))[0]
            assert len(set(brokers)) == 3
            for broker in brokers:
                for fault in range(faults.first[broker], faults.first[broker + 1]):
                    expected[client, fault] = expected.get((client, fault), 0) + 1
    met = population.met(faults, 0)
    pairs = zip(met.client.tolist(), met.fault.tolist(), strict=True)
    assert dict(zip(pairs, met.slots.tolist(), strict=True)) == expected


def test_topics_are_used_as_their_rank_says() -> None:
    config = FleetConfig(topics=50, traffic=Traffic(zipf_exponent=1.0, topics_per_client=1))
    topics = Population(config).topics(generator(1, Purpose.TOPICS, 0), 100_000)
    counts = np.bincount(topics.ravel(), minlength=50)
    weights = 1 / np.arange(1, 51)
    expected = 100_000 * weights / weights.sum()
    assert (np.abs(counts - expected) < 5 * expected**0.5).all()


def test_two_topics_on_a_broker_are_twice_the_sends_to_it() -> None:
    traffic = Traffic(topics_per_client=3)
    config = replace(FLEET, clients=2_000, faults=only("lost", per_hour=0.5), traffic=traffic)
    world, sends = played(config, NameServers())
    met = Population(config).met(world.faults, 0)
    per_slot = [sends.misdirected[met.slots == slots].mean() / slots for slots in (1, 2, 3)]
    expected = sends.exposed_s.mean() * traffic.sends_per_s / 9
    assert per_slot == pytest.approx([expected] * 3, rel=0.1)


def test_blocks_cover_all_clients_and_stay_small() -> None:
    for clients in (1, 8_192, 8_193, 1_000_000):
        config = replace(FLEET, clients=clients, hours=1.0)
        assert 0 <= blocks(config) * block_size(config) - clients < block_size(config)
    busy = replace(FLEET, hours=1_500.0, clients=100_000)
    met = Population(busy).met(draw_faults(busy), 0)
    assert len(met) < 400_000


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40))
def test_a_drawn_number_depends_on_the_seed_the_purpose_and_the_thing(seed: int, thing: int) -> None:
    one = np.array([thing])
    found = uniform(seed, Purpose.SCAN, one)[0]
    assert 0 <= found < 1
    others = (
        uniform(seed ^ 1, Purpose.SCAN, one),
        uniform(seed, Purpose.SWEEP, one),
        uniform(seed, Purpose.SCAN, one + 1),
        uniform(seed, Purpose.SCAN, one, 1),
    )
    assert found == uniform(seed, Purpose.SCAN, one)[0]
    assert all(found != other[0] for other in others)


def test_drawn_numbers_are_evenly_distributed() -> None:
    found = uniform(3, Purpose.PLACES, np.arange(100_000))
    counts = np.bincount((found * 100).astype(np.int64), minlength=100)
    assert ((counts - 1_000) ** 2 / 1_000).sum() < 160  # chi-squared, 99 degrees: one in ten thousand


# --- how soon routes lack a broker --------------------------------------------------------------------------


def lost(system: System, **settings: Any) -> Floats:
    """Return how soon the routes of clients lack brokers whose hosts were lost."""
    config = FleetConfig(
        brokers=200, topics=2_000, clients=2_000, hours=2.0, faults=only("lost", per_hour=0.5), **settings
    )
    return played(config, system)[1].avoid_s


def test_a_lost_host_is_known_within_the_lease_as_the_agents_page_says() -> None:
    # docs/agent/sizes.md, "host lost, lease of 15 s": measured p50 14.0 s, p99 14.9 s, bound TTL + 0.2 s.
    found = lost(SharedRoutes())
    assert found.min() >= 10.0
    assert found.max() <= 15.2
    assert 11.5 < np.median(found) < 14.0


def test_a_killed_broker_is_known_as_soon_as_the_agents_page_says() -> None:
    # docs/agent/sizes.md, "broker killed": measured p50 11 ms, p99 14 ms.
    config = replace(FLEET, faults=only("crash", per_hour=0.5))
    found = played(config, SharedRoutes())[1].avoid_s
    assert 0.010 <= np.median(found) <= 0.012
    assert 0.012 <= np.quantile(found, 0.99) <= 0.016


def test_name_servers_stay_within_their_own_timers() -> None:
    found = lost(NameServers())
    assert found.min() >= 90.0
    assert found.max() <= 150.0
    crashed = replace(FLEET, faults=only("crash", per_hour=0.5))
    found = played(crashed, NameServers())[1].avoid_s
    assert found.max() <= 30.02
    assert np.median(found) == pytest.approx(15.0, abs=1.5)


def test_the_loss_of_the_sweeper_costs_no_more_than_a_look_at_the_leases() -> None:
    traffic = Traffic(brokers_per_topic=1)
    model = only("lost", per_hour=0.5)
    alone = FleetConfig(brokers=1, topics=9, clients=50, hours=300.0, faults=model, traffic=traffic)
    system = SharedRoutes(lease_ttl_s=2.0, heartbeat_s=0.5, guard_hold_s=0.0)
    found = played(alone, system)[1].avoid_s
    assert found.max() <= 3.0
    assert np.median(found) == pytest.approx(2.25, abs=0.1)
    many = played(replace(alone, brokers=50, hours=10.0), system)[1].avoid_s
    assert np.median(many) == pytest.approx(1.76, abs=0.1)


def test_acting_masters_are_given_up_sooner() -> None:
    system = NameServers(name="acting", timeout_s=10.0, register_s=1.0, traffic_s=1.0)
    assert lost(system).max() <= 10.0 + 5.0 + 30.0


def test_a_shorter_lease_is_never_later() -> None:
    found = [
        np.sort(lost(SharedRoutes(lease_ttl_s=ttl_s, heartbeat_s=ttl_s / 3, faults=None)))
        for ttl_s in (4.0, 10.0, 15.0, 30.0)
    ]
    for shorter, longer in pairwise(found):
        assert (shorter <= longer).all()


def rng() -> np.random.Generator:
    """Return the generator of a block."""
    return generator(1, Purpose.LEARNING, 0)


def test_a_hang_is_never_known_unless_an_agent_asks() -> None:
    config = replace(FLEET, faults=only("hang", per_hour=0.5))
    assert np.isinf(played(config, SharedRoutes(hang_check_s=0.0))[1].avoid_s).all()
    asked = SharedRoutes(hang_check_s=5.0, hang_failures=3, hang_deadline_s=1.0)
    found = played(config, asked)[1].avoid_s
    assert found.min() >= 3.0
    assert found.max() < 8.1


def test_lost_doorbells_cost_up_to_a_look_at_the_tail() -> None:
    config = replace(FLEET, faults=only("crash", per_hour=0.5))
    found = played(config, SharedRoutes(doorbell_lost_share=1.0))[1].avoid_s
    assert found.max() <= 1.01
    assert np.median(found) == pytest.approx(0.5, abs=0.05)


def test_a_drain_that_is_long_enough_leaves_no_misdirected_sends() -> None:
    config = replace(FLEET, faults=only("restart", per_hour=0.5), traffic=Traffic(sends_per_s=100.0))
    assert played(config, SharedRoutes())[1].misdirected.sum() > 0
    assert played(config, SharedRoutes(drain_s=10.0))[1].misdirected.sum() == 0
    assert played(config, NameServers(drain_s=10.0))[1].misdirected.sum() > 0
    assert played(config, NameServers(drain_s=31.0))[1].misdirected.sum() == 0


# --- outages ------------------------------------------------------------------------------------------------


def in_an_outage(system: System, lasted_s: float, kind: str = "crash") -> tuple[Floats, Floats]:
    """Return the delays, and those to the end of an outage that all faults fall into."""
    config = FleetConfig(brokers=100, clients=300, hours=1.0, faults=only(kind, per_hour=0.5))
    faults = draw_faults(config)
    place = faults.began_s[len(faults) // 2]
    outages = Outages(np.array([place - 1.0]), np.array([place - 1.0 + lasted_s]))
    met = Population(config).met(faults, 0)
    within = (faults.began_s[met.fault] >= outages.began_s[0]) & (
        faults.began_s[met.fault] < outages.ended_s[0]
    )
    found = avoid_s(World(config, faults, outages), system, met, rng())
    return found[within], (outages.ended_s[0] - faults.began_s[met.fault])[within]


def test_what_happens_in_an_outage_is_known_when_client_and_agent_are_back() -> None:
    found, over = in_an_outage(SharedRoutes(lease_ttl_s=60.0), 20.0)
    assert len(found) > 10
    assert (found >= over).all()
    assert (found <= over + 6.0).all()


def test_an_outage_that_outlasts_the_leases_makes_clients_careful_that_are_back_before_the_agents() -> None:
    found, over = in_an_outage(SharedRoutes(rejoin_s=3_000.0), 20.0)
    assert (found >= over + 30.0).all()
    assert (found <= over + 36.0 + 1.0).all()


def test_clients_that_are_back_after_most_agents_believe_the_store_at_once() -> None:
    found, over = in_an_outage(SharedRoutes(rejoin_s=0.0), 20.0)
    assert (found <= over + 6.0).mean() > 0.8


def test_a_lease_that_ends_in_an_outage_needs_no_agent() -> None:
    system = SharedRoutes(lease_ttl_s=11.0, rejoin_s=3_000.0, guard_hold_s=0.0)
    found, over = in_an_outage(system, 20.0, "lost")
    ends_within = over > 11.0
    assert ends_within.any()
    assert (found[ends_within] >= over[ends_within]).all()
    assert (found[ends_within] <= over[ends_within] + 6.0).all()


def test_name_servers_know_no_outage_of_the_store_unless_told_so() -> None:
    alone, _ = in_an_outage(NameServers(), 60.0)
    away, over = in_an_outage(NameServers(in_outages=True), 60.0)
    assert alone.max() <= 30.02
    assert (away >= np.minimum(alone, over)).all()
    assert (away[alone < over] >= over[alone < over]).all()
    assert away.max() <= over.max() + 60.0


def test_name_servers_that_come_back_have_forgotten_a_lost_host() -> None:
    alone, _ = in_an_outage(NameServers(), 10.0, "lost")
    away, over = in_an_outage(NameServers(in_outages=True), 10.0, "lost")
    assert (away <= alone).all()
    assert (away >= over).all()
    assert (away <= over + 60.0).all()


# --- what it adds up to -------------------------------------------------------------------------------------


def test_no_faults_are_no_misdirected_sends() -> None:
    config = replace(FLEET, faults=only("crash", per_hour=0.0))
    tally = play(config, range(blocks(config)))
    assert len(draw_faults(config)) == 0
    rows = totals_table(config, draw_faults(config), tally).to_pylist()
    assert {row["misdirected"] for row in rows} == {0}
    assert {row["per_client_hour"] for row in rows} == {0.0}
    found = quantiles_table(config, draw_faults(config), tally).to_pylist()
    assert {(row["measure"], row["max"], row["count"]) for row in found} == {("misdirected_client", 0, 300)}
    assert faults_table(config, draw_faults(config), tally).num_rows == 0


def test_no_sends_are_no_misdirected_sends() -> None:
    config = replace(FLEET, traffic=Traffic(sends_per_s=0.0))
    assert play(config, range(blocks(config))).misdirected.sum() == 0


def test_parts_add_up() -> None:
    faults, tally = draw_faults(FLEET), play(FLEET, range(blocks(FLEET)))
    totals = totals_table(FLEET, faults, tally).to_pylist()
    of_faults = faults_table(FLEET, faults, tally).to_pylist()
    quantiles = quantiles_table(FLEET, faults, tally).to_pylist()
    bins: Counter[tuple[str, str, str]] = Counter()
    for row in histogram_table(FLEET, faults, tally).to_pylist():
        bins[row["system"], row["kind"], row["measure"]] += row["count"]
    for system in (system.name for system in SYSTEMS):
        mine = {row["kind"]: row for row in totals if row["system"] == system}
        for column in ("faults", "met", "avoided", "never", "misdirected"):
            assert mine["all"][column] == sum(mine[kind][column] for kind in KINDS)
        for column in ("met", "avoided", "never", "misdirected"):
            assert mine["all"][column] == sum(row[column] for row in of_faults if row["system"] == system)
        for row in (row for row in quantiles if row["system"] == system):
            assert row["count"] + row["never"] == bins[row["system"], row["kind"], row["measure"]]
            if row["measure"] == "avoid_s":
                assert row["never"] == mine[row["kind"]]["never"]
                assert row["count"] == mine[row["kind"]]["met"] - row["never"]
            else:
                assert row["never"] == 0
            if row["measure"] in ("misdirected", "misdirected_client"):
                assert row["mean"] * row["count"] == pytest.approx(mine[row["kind"]]["misdirected"])
            shares = [row[name] for name in ("p50", "p90", "p95", "p99")]
            told = [value for value in shares if value is not None]
            assert sorted(told) == told == shares[: len(told)]  # what never comes is above all that does
            assert all(value <= row["max"] for value in told)


def test_what_never_comes_is_above_every_value() -> None:
    """Where agents do not ask, no client ever learns of a broker that hangs."""
    config = replace(FLEET, faults=only("hang", per_hour=1.0))
    faults, tally = draw_faults(config), play(config, range(blocks(config)))
    (row,) = [
        row
        for row in quantiles_table(config, faults, tally).to_pylist()
        if (row["system"], row["kind"], row["measure"]) == ("sharedroutes-unasked", "hang", "avoid_s")
    ]
    assert (row["count"], row["never"]) == (0, tally.met.sum())
    assert {row[name] for name in ("mean", "p50", "p99", "max")} == {None}
    assert quantile(np.array([0, 3]), 1, 0.75, never=1) == 1
    assert quantile(np.array([0, 3]), 1, 0.76, never=1) is None


def test_it_does_not_matter_who_plays_which_clients() -> None:
    config = FleetConfig(brokers=50, clients=40_000)
    assert blocks(config) > 4
    whole = play(config, range(blocks(config)))
    parts = Tally(len(SYSTEMS), len(draw_faults(config)))
    for first in range(3):
        parts.merge_bytes(play(config, range(first, blocks(config), 3)).to_bytes())
    for one, other in zip(whole._arrays(), parts._arrays(), strict=True):
        assert np.array_equal(one, other)


def test_another_seed_is_another_run() -> None:
    one, other = draw_faults(FLEET), draw_faults(replace(FLEET, seed=2))
    assert not np.array_equal(one.began_s[:5], other.began_s[:5])


def test_a_system_does_not_depend_on_those_that_it_is_compared_with() -> None:
    alone = replace(FLEET, systems=SYSTEMS[-1:])
    one = play(alone, range(blocks(alone)))
    all_ = play(FLEET, range(blocks(FLEET)))
    assert np.array_equal(one.misdirected[0], all_.misdirected[-1])


@given(st.lists(st.integers(0, 2**45), min_size=1), st.floats(0.01, 1.0))
def test_percentiles_are_half_a_percent_too_high_at_most(values: list[int], share: float) -> None:
    sketch = Sketch(1)
    sketch.add(np.zeros(len(values), dtype=np.int64), np.array(values))
    exact = sorted(values)[max(1, int(np.ceil(share * len(values)))) - 1]
    found = quantile(sketch.counts[0], int(sketch.largest[0]), share)
    assert found is not None
    assert exact <= found <= exact * 1.005
    assert sketch.total(0) == sum(values)
    assert sketch.size(0) == len(values)


def test_small_numbers_are_counted_exactly() -> None:
    assert EDGES[:200].tolist() == list(range(200))


# --- settings -----------------------------------------------------------------------------------------------


BAD: list[tuple[str, Callable[[], object]]] = [
    ("brokers", lambda: FleetConfig(brokers=0)),
    ("topics", lambda: FleetConfig(topics=-1)),
    ("clients", lambda: FleetConfig(clients=True)),
    ("hours", lambda: FleetConfig(hours=float("nan"))),
    ("seed", lambda: FleetConfig(seed=-1)),
    ("traffic", lambda: FleetConfig(traffic=None)),  # type: ignore[arg-type]
    ("faults", lambda: FleetConfig(faults=None)),  # type: ignore[arg-type]
    ("systems", lambda: FleetConfig(systems=())),
    ("systems", lambda: FleetConfig(systems=(SYSTEMS[0], SYSTEMS[0]))),
    ("brokers_per_topic", lambda: FleetConfig(brokers=2)),
    ("faults", lambda: FleetConfig(brokers=1_000_000, hours=1_000.0)),
    ("clients", lambda: FleetConfig(clients=100_000_000, hours=1_000.0)),
    ("mean_s", lambda: FleetConfig(clients=100_000_000, hours=0.1, faults=only("lost", mean_s=1e5))),
    ("topics", lambda: FleetConfig(topics=100_000_000, traffic=Traffic(zipf_exponent=1.0))),
    ("base_isolation_s", lambda: FleetConfig(traffic=Traffic(timeout_s=20.0))),
    ("per_hour", lambda: Happening(per_hour=-1.0)),
    ("mean_s", lambda: Happening(mean_s=0.0)),
    ("fixed", lambda: Happening(fixed=1)),  # type: ignore[arg-type]
    ("crash", lambda: FaultModel(crash=1.0)),  # type: ignore[arg-type]
    ("sends_per_s", lambda: Traffic(sends_per_s=-1.0)),
    ("topics_per_client", lambda: Traffic(topics_per_client=0)),
    ("brokers_per_topic", lambda: Traffic(brokers_per_topic=0)),
    ("zipf_exponent", lambda: Traffic(zipf_exponent=9.0)),
    ("timeout_s", lambda: Traffic(timeout_s=0.0)),
    ("name", lambda: NameServers(name="")),
    ("name_servers", lambda: NameServers(name_servers=0)),
    ("timeout_s", lambda: NameServers(timeout_s=10.0)),
    ("idle_s", lambda: NameServers(idle_s=1.0)),
    ("poll_s", lambda: NameServers(poll_s=0.0)),
    ("faults", lambda: NameServers(faults=True)),  # type: ignore[arg-type]
    ("lease_ttl_s", lambda: SharedRoutes(lease_ttl_s=6.0)),
    ("tail_s", lambda: SharedRoutes(tail_s="1")),  # type: ignore[arg-type]
    ("doorbell_lost_share", lambda: SharedRoutes(doorbell_lost_share=1.5)),
    ("hang_failures", lambda: SharedRoutes(hang_failures=0)),
    ("max_isolation_s", lambda: ClientFaults(max_isolation_s=1.0)),
    ("smallest_share", lambda: ClientFaults(smallest_share=0.0)),
    ("JSON", lambda: FleetConfig.from_json("{")),
    ("fleet", lambda: FleetConfig.from_json("[]")),
    ("broker", lambda: FleetConfig.from_json('{"broker": 1}')),
    ("registry", lambda: FleetConfig.from_json('{"systems": [{"name": "x"}]}')),
    ("systems", lambda: FleetConfig.from_json('{"systems": 1}')),
    ("ttl", lambda: FleetConfig.from_json('{"systems": [{"registry": "sharedroutes", "ttl": 1}]}')),
    ("often", lambda: FleetConfig.from_json('{"faults": {"crash": {"often": 1}}}')),
]


@pytest.mark.parametrize(("name", "make"), BAD, ids=[f"{n}-{name}" for n, (name, _) in enumerate(BAD)])
def test_a_setting_that_makes_no_sense_is_named(name: str, make: Callable[[], object]) -> None:
    with pytest.raises(BadOption, match=name):
        make()


def test_settings_survive_json() -> None:
    config = replace(FLEET, systems=(*SYSTEMS, SharedRoutes(name="no memory", faults=None)), seed=2**62)
    assert FleetConfig.from_json(config.to_json()) == config
    assert FleetConfig.from_json("{}") == FleetConfig()
    part = json.dumps({"traffic": {"sends_per_s": 5}, "faults": {"crash": {"per_hour": 1}}})
    found = FleetConfig.from_json(part)
    assert (found.traffic.sends_per_s, found.faults.crash.per_hour) == (5, 1)
    assert found.faults.hang == FaultModel().hang
