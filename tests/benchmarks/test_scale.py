"""What one more of everything costs: lines through figures, what they say of other numbers, and real runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.kit.command import to_json
from benchmarks.kit.figures import Figure, Outcome
from benchmarks.kit.machine import Machine
from benchmarks.report import scale
from benchmarks.scale import brokers, clients, topics
from benchmarks.scale.capacity import BUDGET, Deployment, Prices
from benchmarks.scale.costs import COMMANDS, CPU, MEMORY, RECEIVED, SENT, costs, fitted, series

LEAST_DOORBELL_B = 100

COUNTS = (100, 200, 400)

EACH: Mapping[tuple[str, str, str], float] = {
    (clients.IDLE, CPU, clients.OF): 0.01,
    (clients.IDLE, COMMANDS, clients.OF): 0.3,
    (clients.IDLE, SENT, clients.OF): 200.0,
    (clients.SILENT, CPU, clients.OF): 0.05,
    (clients.CHANGE, CPU, clients.OF): 0.005,
    (clients.CHANGE, SENT, clients.OF): 250.0,
    (clients.BACK, CPU, clients.OF): 0.08,
    (clients.BACK, SENT, clients.OF): 900.0,
    (clients.SERVER, MEMORY, clients.OF): 0.02,
    (brokers.IDLE, CPU, brokers.OF): 0.04,
    (brokers.SERVER, MEMORY, brokers.OF): 0.03,
    (topics.REGISTERED, CPU, topics.OF): 0.02,
    (topics.SERVER, MEMORY, topics.OF): 0.0006,
}
"""What each costs in a world without noise."""


def figures(wrong_at_last: float = 1.0) -> list[Figure]:
    """Return what runs would measure there, with a base of 2; the largest size may differ."""
    found = []
    for (what, part, of), each in EACH.items():
        values = {count: [2.0 + each * count] for count in COUNTS}
        values[COUNTS[-1]][0] *= wrong_at_last
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


def test_the_line_goes_through_the_smaller_sizes_and_is_checked_at_the_largest() -> None:
    cost = fitted({400: 30.0, 100: 10.0, 200: 15.0}, "ms")
    assert [*cost.line] == pytest.approx([5.0, 0.05])
    assert [cost.checked_at, cost.predicted, cost.measured] == pytest.approx([400, 25.0, 30.0])
    assert cost.error == pytest.approx(-1 / 6)


@pytest.mark.parametrize(("wrong", "met"), [(1.0, True), (1.2, True), (1.5, False), (0.7, False)])
def test_a_prediction_that_is_wrong_by_a_quarter_misses_its_target(wrong: float, *, met: bool) -> None:
    errors = [figure for figure in figures(wrong) if figure.target is not None]
    assert len(errors) == len(EACH)
    assert {figure.met for figure in errors} == {met}


def test_figures_are_read_back_as_the_lines_that_they_were_made_of() -> None:
    found = costs(as_run()["benchmarks"][0]["figures"])
    assert {key: cost.line.each for key, cost in found.items()} == {
        (what, part): pytest.approx(each) for (what, part, _), each in EACH.items()
    }


def test_without_one_of_the_parts_there_is_no_page() -> None:
    run = as_run()
    benchmark = run["benchmarks"][0]
    benchmark["figures"] = [one for one in benchmark["figures"] if topics.SERVER not in one["name"]]
    assert scale.prices([run]) is None


def test_a_server_is_full_with_as_many_clients_as_its_budget_pays_for(prices: Prices) -> None:
    assert prices.most_clients() == BUDGET * 1_000 / 0.01
    assert prices.most_clients(pulses=False) == BUDGET * 1_000 / 0.05
    with_changes = prices.most_clients(changes_s=1.0)
    load = prices.load(Deployment(0, 0, with_changes, changes_s=1.0))
    assert load.cpu == pytest.approx(BUDGET + 0.002, rel=0.001)  # and the base of what is idle
    assert prices.most_brokers() == BUDGET * 1_000 / 0.04
    assert prices.most_changes(10_000) == pytest.approx(400 / 52)


def test_readers_are_shared_out_so_that_none_is_over_its_budget(prices: Prices) -> None:
    assert prices.servers(500_000) == 10
    count = prices.servers(500_000, changes_s=1.0)
    each = math.ceil(500_000 / count)
    assert each <= prices.most_clients(changes_s=1.0) < math.ceil(500_000 / (count - 1))


def test_what_nobody_asks_for_costs_nothing(prices: Prices) -> None:
    load = prices.load(Deployment(0, 1_000, 0))
    assert (load.cpu, load.commands_s, load.sent_b_s) == (0, 0, 0)
    assert load.memory_mb == pytest.approx(0.6)


def test_the_page_says_what_was_predicted_and_how_wrong_it_was() -> None:
    run = as_run(wrong_at_last=1.25)
    found = scale.prices([run])
    assert found is not None
    page = scale.text([run], found)
    assert f"| {clients.IDLE}: {CPU} | 400 | 6.00 ms | 7.50 ms | -20.0 % |" in page
    assert "- `scale.clients`: a note of it" in page
    assert "{{" not in page
    assert len(page.splitlines()) <= 150
    drawn = ET.fromstring(scale.plot(found))  # noqa: S314 - ours
    assert len([one for one in drawn.iter() if one.tag.endswith("polyline")]) == 4


@pytest.mark.long
def test_real_clients_brokers_and_topics_cost_something() -> None:
    small = clients.Size(
        counts=(2, 4, 6),
        silent_counts=(2, 3, 4),
        processes=1,
        settle_s=0.1,
        rounds=1,
        idle_s=1.5,
        silent_s=1.5,
        changes=2,
        returns=1,
        return_s=0.3,
    )
    few = brokers.Size(
        counts=(2, 4, 6), processes=1, heartbeat_s=0.2, lease_ttl_s=4.0, settle_s=0.5, rounds=1, round_s=1.0
    )
    outcomes = [clients.run(small), brokers.run(few), topics.run(topics.Size(counts=(40, 80, 160)))]
    found = costs(
        {"name": one.name, "median": one.median, "unit": one.unit} for of in outcomes for one in of.figures
    )
    assert Prices.complete(found) is not None
    told = found[clients.CHANGE, SENT]
    assert told.measured > told.checked_at * LEAST_DOORBELL_B
    assert found[topics.REGISTERED, RECEIVED].line.each > 0
