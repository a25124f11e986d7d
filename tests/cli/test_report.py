"""The end of the demo, for people and for machines, and its exit status."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import pytest
from click.testing import CliRunner
from rich.console import Console

from sharedroutes.cli.commands import sharedroutes
from sharedroutes.cli.demo import command
from sharedroutes.cli.demo.results import Log, Observed, Report, measure, summary, to_json
from sharedroutes.cli.demo.scenario import SCENARIO, SETTINGS, Happening
from tests.cli.records import log_of, observed, try_of

TRIES: Final = [
    *(try_of(n, name, 10.2 + n / 10) for n, name in enumerate(("broker-a", "broker-b", "broker-c"))),
    try_of(3, "broker-c", 11.5),
]


def report_of(log: Log, *events: Observed) -> Report:
    return measure(events, log, pause_limit_s=SETTINGS.pause_limit_s)


GOOD: Final = report_of(log_of(TRIES, 12.0), observed(Happening.BROKER_KILLED, 10.0, 10.25))
OUTAGE: Final = report_of(
    log_of(TRIES, 12.0), observed(Happening.STORE_STOPPED, 10.0, 10.25, live={"broker-a"})
)
TIMELINE_LINES: Final = 6
"""What `Show` draws above the table."""

LOSING: Final = replace(GOOD, losses=("message 17: gave up",))
BLIND: Final = report_of(log_of(TRIES, 12.0), observed(Happening.BROKER_KILLED, 10.0, None))


def printed(report: Report, columns: int = 80) -> str:
    text = io.StringIO()
    Console(file=text, width=columns).print(summary(report, SETTINGS))
    return text.getvalue()


def test_the_table_has_the_measured_and_the_calculated_figure_side_by_side() -> None:
    lines = [line.split() for line in printed(GOOD).splitlines()]
    assert lines[1][-8:] == ["noticed", "in", "use", "pause", "RocketMQ*", "sent", "retried", "lost"]
    assert ["broker-b", "killed", "0.25", "s", "0.30", "s", "30", "s", "4", "0", "0"] in lines
    assert "4 messages in 2.0 s, 0 lost, 0 first attempts failed; 1 of 1 events seen" in printed(GOOD)


def test_one_first_attempt_that_failed_is_one() -> None:
    assert "0 lost, 1 first attempt failed; " in printed(replace(GOOD, failed_first=1))


def test_a_line_for_each_event_fits_80_columns_and_one_screen() -> None:
    outcomes = [replace(OUTAGE.outcomes[0], event=event, sent=99_999) for event in SCENARIO]
    report = replace(GOOD, sent=99_999, duration_s=99.9, outcomes=tuple(outcomes))
    lines = printed(report).splitlines()
    assert lines == printed(report, columns=400).splitlines(), "something is cut or wrapped"
    assert max(map(len, lines)) <= 80
    assert TIMELINE_LINES + len(lines) <= 28
    for event in SCENARIO:
        assert [line for line in lines if line.startswith(event.short_title) and "99,999" in line]


@pytest.mark.parametrize("happening", list(Happening))
def test_every_event_is_told_in_words(happening: Happening) -> None:
    seen = report_of(log_of(TRIES, 12.0), observed(happening, 10.0, 10.25))
    assert seen.ok
    assert seen.outcomes[0].event.short_title in printed(seen)
    assert "NOT SEEN" not in printed(seen)
    assert "NOT SEEN within" in printed(report_of(log_of(TRIES, 12.0), observed(happening, 10.0, None)))


def test_an_event_that_went_wrong_says_how() -> None:
    late = log_of([*TRIES, try_of(9, "broker-b", 19.0)], 20.0)
    assert "NOT SEEN within 5 s: 9.00 s" in printed(
        report_of(late, observed(Happening.BROKER_KILLED, 10.0, 10.25))
    )
    outage = observed(Happening.STORE_STOPPED, 10.0, 10.25, live={"broker-a"})
    assert "NOT SEEN as it should: 4 messages, longest pause 9.80 s" in printed(
        report_of(log_of(TRIES, 20.0), outage)
    )


def test_lost_messages_are_listed_up_to_a_limit() -> None:
    text = printed(replace(GOOD, losses=tuple(f"message {n}: gave up" for n in range(13))))
    assert "message 9: gave up" in text
    assert "message 10: gave up" not in text
    assert "and 3 more" in text


def test_the_document_holds_all_figures() -> None:
    document = json.loads(to_json(LOSING, SETTINGS))
    (event,) = document["events"]
    assert not document["ok"]
    assert document["messages"] == {
        "sent": 4,
        "first_attempts_failed": 0,
        "lost": 1,
        "losses": ["message 17: gave up"],
    }
    assert document["settings"]["lease_ttl_s"] == SETTINGS.lease_ttl_s
    assert (event["event"], event["seen"], event["client_s"]) == ("broker-killed", True, 0.3)
    assert event["name_server"]["calculated_worst_s"] == 30.0


def test_the_name_server_s_worst_cases_are_sums_of_its_timers() -> None:
    worst = {event.happening.value: event.worst_s for event in SCENARIO}
    assert worst == {
        "all-start": None,
        "broker-killed": 30.0,
        "host-lost": 120.0 + 30.0,
        "store-stopped": None,
        "store-empty": 30.0,
        "broker-back": 30.0,
        "host-back": 30.0,
    }


class Staged:
    """In place of the stage: comes to a report at once."""

    report: Report

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self) -> Report:
        return self.report

    def logs(self) -> str:
        return "  broker-a/agent.log: a line"


@pytest.mark.parametrize(("report", "status"), [(GOOD, 0), (LOSING, 1), (BLIND, 1)])
def test_the_demo_fails_when_a_message_was_lost_or_an_event_was_not_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, report: Report, status: int
) -> None:
    monkeypatch.setattr(command, "Stage", Staged)
    monkeypatch.setattr(Staged, "report", report, raising=False)
    runner = CliRunner()
    alone = runner.invoke(sharedroutes, ["demo", "--json"])
    assert alone.exit_code == status
    assert json.loads(alone.stdout)["ok"] is (status == 0)
    assert "first attempts failed" in alone.stderr
    assert ("a line" in alone.stderr) is (status == 1)
    file = tmp_path / "demo.json"
    beside = runner.invoke(sharedroutes, ["demo", "--json", str(file)])
    assert beside.exit_code == status
    assert "first attempts failed" in beside.stdout
    assert json.loads(file.read_text()) == json.loads(alone.stdout)
