"""What one more of everything costs: lines through figures, what they say of other numbers, and real runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.kit.command import to_json
from benchmarks.kit.figures import Figure, Outcome
from benchmarks.kit.machine import Machine
from benchmarks.report import scale
from benchmarks.scale import brokers, clients, replicas, topics
from benchmarks.scale.capacity import BUDGET, Deployment, Prices
from benchmarks.scale.clients import at_replica
from benchmarks.scale.costs import COMMANDS, CONNECTIONS, CPU, MEMORY, RECEIVED, SENT, costs, fitted, series

LEAST_DOORBELL_B = 100

COUNTS = (100, 200, 400, 800)

EACH: Mapping[tuple[str, str, str], float] = {
    (clients.IDLE, CPU, clients.OF): 0.01,
    (clients.IDLE, COMMANDS, clients.OF): 0.3,
    (clients.IDLE, SENT, clients.OF): 200.0,
    (clients.SILENT, CPU, clients.OF): 0.05,
    (clients.SILENT, COMMANDS, clients.OF): 2.5,
    (clients.CHANGE, CPU, clients.OF): 0.005,
    (clients.CHANGE, SENT, clients.OF): 250.0,
    (clients.BACK, COMMANDS, clients.OF): 4.0,
    (clients.BACK, SENT, clients.OF): 900.0,
    (clients.SERVER, MEMORY, clients.OF): 0.02,
    (clients.SERVER, CONNECTIONS, clients.OF): 2.0,
    (clients.OWN, CPU, clients.OF): 1.5,
    (at_replica(clients.IDLE), CPU, clients.OF): 0.02,
    (at_replica(clients.CHANGE), CPU, clients.OF): 0.005,
    (at_replica(clients.BACK), COMMANDS, clients.OF): 5.0,
    (at_replica(clients.SERVER), MEMORY, clients.OF): 0.02,
    (replicas.PULSES, CPU, replicas.OF): 0.1,
    (replicas.PULSES, SENT, replicas.OF): 500.0,
    (replicas.CHANGE, CPU, replicas.OF): 0.02,
    (replicas.BACK, CPU, replicas.OF): 0.04,
    (replicas.HEARTBEAT, CPU, replicas.OF): 0.01,
    (replicas.HEARTBEAT, SENT, replicas.OF): 200.0,
    (replicas.APPLIED, CPU, replicas.HEARTBEATS): 0.02,
    (brokers.IDLE, CPU, brokers.OF): 0.04,
    (brokers.SERVER, MEMORY, brokers.OF): 0.03,
    (topics.REGISTERED, CPU, topics.OF): 0.02,
    (topics.SERVER, MEMORY, topics.OF): 0.0006,
}
"""What each costs in a world without noise."""


def figures(wrong_at_last: float = 1.0) -> list[Figure]:
    """Return what runs would measure there, with a base of 2; the two largest sizes may differ."""
    found = []
    for (what, part, of), each in EACH.items():
        values = {count: [2.0 + each * count] for count in COUNTS}
        for count in COUNTS[-2:]:
            values[count][0] *= wrong_at_last
        found += [*series(what, part, of, values, "ms")]
    return found


def as_run(*, wrong_at_last: float = 1.0) -> dict[str, Any]:
    """Return it as a file of a run has it."""
    machine = Machine("EPYC", 2, "Linux", "3.11.7", "Redis 7.0.15", "2026-01-02", {})
    outcome = Outcome(figures(wrong_at_last), ["a note of it"])
    named = {"scale.clients": ("How much?", outcome)}
    run: dict[str, Any] = json.loads(to_json(machine, named, load=(0.5, 1.5), quick=False))
    return run


@pytest.fixture
def prices() -> Prices:
    found = scale.prices([as_run()])
    assert found is not None
    return found


def test_the_line_goes_through_the_smaller_sizes_and_is_checked_at_the_two_largest() -> None:
    cost = fitted({400: 30.0, 100: 10.0, 200: 15.0, 800: 36.0})
    assert [*cost.line] == pytest.approx([5.0, 0.05])
    assert [[*check] for check in cost.checks] == [pytest.approx([400, 25, 30]), pytest.approx([800, 45, 36])]
    assert [check.error for check in cost.checks] == pytest.approx([-1 / 6, 1 / 4])


@pytest.mark.parametrize(("wrong", "met"), [(1.0, True), (1.2, True), (1.5, False), (0.7, False)])
def test_a_prediction_that_is_wrong_by_a_quarter_misses_its_target(wrong: float, *, met: bool) -> None:
    errors = [figure for figure in figures(wrong) if figure.target is not None]
    assert len(errors) == 2 * len(EACH)
    assert {figure.met for figure in errors} == {met}


def test_figures_are_read_back_as_the_lines_that_they_were_made_of() -> None:
    found = costs(as_run()["benchmarks"][0]["figures"])
    assert {key: cost.line.each for key, cost in found.items()} == {
        (what, part): pytest.approx(each) for (what, part, _), each in EACH.items()
    }


def test_a_return_is_told_twice_and_its_commands_cost_what_they_do_without_pulses(prices: Prices) -> None:
    assert prices.line(clients.BACK, CPU).each == pytest.approx(2 * 0.005 + 4.0 * 0.05 / 2.5)
    assert prices.line(at_replica(clients.BACK), CPU).each == pytest.approx(2 * 0.005 + 5.0 * 0.05 / 2.5)


def test_without_one_of_the_parts_there_is_no_page() -> None:
    run = as_run()
    benchmark = run["benchmarks"][0]
    benchmark["figures"] = [one for one in benchmark["figures"] if topics.SERVER not in one["name"]]
    assert scale.prices([run]) is None


@pytest.mark.parametrize(
    "of",
    [
        Deployment(),
        Deployment(pulses=False),
        Deployment(changes_s=1.0, returns_s=0.1),
        Deployment(brokers=1_000, changes_s=1.0, replicas=1),
    ],
)
def test_a_server_is_full_with_as_many_clients_as_its_budget_pays_for(prices: Prices, of: Deployment) -> None:
    server = prices.replica if of.replicas else prices.primary
    most = prices.most_clients(of)
    assert server(replace(of, clients=most - 1)).cpu < BUDGET < server(replace(of, clients=most + 2)).cpu


def test_what_a_primary_tells_its_clients_and_what_its_brokers_say_adds_up(prices: Prices) -> None:
    assert prices.most_brokers() == pytest.approx((BUDGET * 1_000 - 2) / 0.04, abs=1)
    load = prices.primary(Deployment(brokers=100, clients=1_000, changes_s=2.0))
    assert load.cpu * 1_000 == pytest.approx((2 + 4) + (2 + 10) + 2 * (2 + 5))
    assert load.commands_s == pytest.approx(2 + 300)


def test_a_primary_with_replicas_pays_for_what_it_writes_to_them_and_not_for_clients(prices: Prices) -> None:
    of = Deployment(brokers=1_000, clients=1_000_000, changes_s=2.0, replicas=8)
    load = prices.primary(of)
    heartbeats_s = 1_000 / brokers.Size().heartbeat_s
    pulses_and_changes = (2 + 0.8) + 2 * (2 + 0.16)
    assert load.cpu * 1_000 == pytest.approx((2 + 40) + pulses_and_changes + heartbeats_s * 8 * 0.01)
    assert load.sent_b_s == pytest.approx(2 + 8 * 500 + heartbeats_s * 8 * 200)
    assert load == prices.primary(replace(of, clients=1))


def test_a_primary_feeds_as_many_replicas_as_its_budget_pays_for_and_a_relay_more(prices: Prices) -> None:
    of = Deployment(brokers=5_000, changes_s=1.0)
    most, most_of_a_relay = prices.most_replicas(of), prices.most_of_a_relay(of)
    for fed, server in ((most, prices.primary), (most_of_a_relay, prices.relay)):
        assert server(replace(of, replicas=fed)).cpu <= BUDGET < server(replace(of, replicas=fed + 1)).cpu
    assert most < most_of_a_relay


def test_readers_are_shared_out_so_that_none_is_over_its_budget(prices: Prices) -> None:
    of = Deployment(brokers=1_000, clients=500_000, changes_s=1.0)
    count = prices.replicas(of)
    assert prices.replica(replace(of, replicas=count)).cpu <= BUDGET
    assert prices.replica(replace(of, replicas=count - 1)).cpu > BUDGET


def test_what_nobody_asks_for_costs_nothing(prices: Prices) -> None:
    load = prices.primary(Deployment(topics=1_000))
    assert (load.cpu, load.commands_s, load.sent_b_s) == (0, 0, 0)
    assert load.memory_mb == pytest.approx(0.6)


def test_the_page_says_what_was_predicted_and_how_wrong_it_was() -> None:
    run = as_run(wrong_at_last=1.25)
    found = scale.prices([run])
    assert found is not None
    page = scale.text([run], found)
    assert "| a client, for a second without | 400, 800 | -20.0 %, -20.0 % |" in page
    assert "- `scale.clients`: a note of it" in page
    assert "800 clients take 1.5 of these cores themselves" in page
    assert "{{" not in page
    assert len(page.splitlines()) <= 150
    drawn = ET.fromstring(scale.plot(found))  # noqa: S314 - ours
    assert len([one for one in drawn.iter() if one.tag.endswith("polyline")]) == 4


@pytest.mark.long
def test_real_clients_brokers_and_topics_cost_something() -> None:
    small = clients.Size(
        counts=(2, 4, 6, 8),
        silent_counts=(2, 3, 4, 5),
        processes=1,
        settle_s=0.1,
        rounds=1,
        idle_s=1.5,
        silent_s=1.5,
        changes=2,
        return_s=0.3,
    )
    few = brokers.Size(
        counts=(2, 4, 6, 8),
        processes=1,
        heartbeat_s=0.2,
        lease_ttl_s=4.0,
        settle_s=0.5,
        rounds=1,
        round_s=1.0,
    )
    fed = replicas.Size(counts=(1, 2, 3, 4), heartbeats=(20, 40, 60, 80), rounds=1, idle_s=1.0, writes=20)
    outcomes = [
        clients.run(small),
        replicas.run(fed),
        brokers.run(few),
        topics.run(topics.Size(counts=(40, 80, 160, 320))),
    ]
    found = costs(
        {"name": one.name, "median": one.median, "unit": one.unit} for of in outcomes for one in of.figures
    )
    assert Prices.complete(found) is not None
    for change in (clients.CHANGE, at_replica(clients.CHANGE)):
        assert all(check.measured > check.at * LEAST_DOORBELL_B for check in found[change, SENT].checks)
    for what in (clients.SERVER, at_replica(clients.SERVER)):
        assert found[what, CONNECTIONS].line.each == pytest.approx(3, abs=0.5)
    assert found[replicas.HEARTBEAT, SENT].line.each > LEAST_DOORBELL_B
    assert found[topics.REGISTERED, RECEIVED].line.each > 0
