"""The benchmarks that hold the fleet simulator to what is real; how far they are apart is not asserted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.kit.figures import Outcome
from benchmarks.simulation import NameServers
from benchmarks.spark import fleet, nameserver
from benchmarks.spark.fleet import SUBJECTS, Size
from benchmarks.spark.nameserver import GROUPS
from benchmarks.spark.real_fleet import Fleet

SMALL = Fleet(brokers=3, clients=2, heartbeat_s=0.5, lease_ttl_s=1.5, reconnect_s=0.5, guard_hold_s=1.0)
"""Of five brokers the benchmark says more; two of three are the least that leave a client a choice."""

TIMERS = NameServers(
    name_servers=1,
    timeout_s=2.0,
    scan_s=0.2,
    register_s=0.5,
    idle_s=2.0,
    traffic_s=0.5,
    poll_s=0.3,
)


def values(outcome: Outcome) -> dict[str, float]:
    """Return the figures by their names."""
    return {figure.name: figure.median for figure in outcome.figures}


@pytest.mark.long
def test_all_ways_to_fail_are_measured_and_simulated() -> None:
    found = values(fleet.run(Size(rounds=1, fleet=SMALL)))
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    for subject in SUBJECTS:
        assert f"{subject.name}, misdirected sends, mean (simulated)" in found
        is_noticed = f"{subject.name}, until routes lack it, p50" in found
        assert is_noticed is (subject.scene.lasts_s is None)
    assert found["broker drained, misdirected sends, mean"] == 0
    assert found["broker drained, misdirected sends, mean (simulated)"] == 0


@pytest.mark.long
def test_a_real_name_server_is_measured_and_simulated() -> None:
    groups = [replace(group, brokers=2, timers=TIMERS) for group in GROUPS]
    outcome = nameserver.run(nameserver.Size(groups, clients=2, spread_s=0.5, targets=False))
    if not outcome.figures:
        pytest.skip(outcome.notes[0])
    found = values(outcome)
    for group in groups:
        assert found[f"{group.name}, p50"] <= found[f"{group.name}, max"]
        assert 0 <= found[f"{group.name}, distance"] <= 1
    assert found["host lost, p50"] > found["broker killed, p50"]
    assert found["topic without brokers: answers that change nothing"] == 1


def test_without_java_nothing_is_measured_and_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    outcome = nameserver.run(nameserver.QUICK)
    assert not outcome.figures
    assert any("java is not on PATH" in note for note in outcome.notes)
