"""The figures of the demo: computed from its records, for people and for programs, and its exit status."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from rich.console import Console

from demo import __main__ as command
from demo.results import Log, Observed, Report, measure, summary, to_json
from demo.scenario import SCENARIO, SETTINGS
from demo.sender import Message
from tests.demo.records import log_of, observed, try_of

TRIES: Final = [
    *(try_of(n, name, 10.2 + n / 10) for n, name in enumerate(("broker-a", "broker-b", "broker-c"))),
    try_of(3, "broker-c", 11.5),
]


def report_of(log: Log, *events: Observed) -> Report:
    return measure(events, log)


GOOD: Final = report_of(log_of(TRIES, 12.0), observed("broker-killed", 10.0, 10.25))
OUTAGE: Final = report_of(log_of(TRIES, 12.0), observed("store-stopped", 10.0, 10.25, live={"broker-a"}))
TIMELINE_LINES: Final = 6
"""What `Show` draws above the table."""

LOSING: Final = replace(GOOD, losses=("message 17: gave up",))
BLIND: Final = report_of(log_of(TRIES, 12.0), observed("broker-killed", 10.0, None))


def printed(report: Report, columns: int = 80) -> str:
    text = io.StringIO()
    Console(file=text, width=columns).print(summary(report))
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


@pytest.mark.parametrize("name", [event.name for event in SCENARIO])
def test_every_event_is_told_in_words(name: str) -> None:
    seen = report_of(log_of(TRIES, 12.0), observed(name, 10.0, 10.25))
    assert seen.ok
    assert seen.outcomes[0].event.short_title in printed(seen)
    assert "NOT SEEN" not in printed(seen)
    assert "NOT SEEN within" in printed(report_of(log_of(TRIES, 12.0), observed(name, 10.0, None)))


def test_an_event_that_went_wrong_says_how() -> None:
    late = log_of([*TRIES, try_of(9, "broker-b", 19.0)], 20.0)
    assert "NOT SEEN within 5 s: 9.00 s" in printed(report_of(late, observed("broker-killed", 10.0, 10.25)))
    outage = observed("store-stopped", 10.0, 10.25, live={"broker-a"})
    assert "NOT SEEN as it should: 4 messages, longest pause 9.80 s" in printed(
        report_of(log_of(TRIES, 20.0), outage)
    )


def test_lost_messages_are_listed_up_to_a_limit() -> None:
    text = printed(replace(GOOD, losses=tuple(f"message {n}: gave up" for n in range(13))))
    assert "message 9: gave up" in text
    assert "message 10: gave up" not in text
    assert "and 3 more" in text


def test_the_document_holds_all_figures() -> None:
    document = json.loads(to_json(LOSING))
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
    worst = {event.name: event.worst_s for event in SCENARIO}
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
    alone = runner.invoke(command.demo, ["--json"])
    assert alone.exit_code == status
    assert json.loads(alone.stdout)["ok"] is (status == 0)
    assert "first attempts failed" in alone.stderr
    assert ("a line" in alone.stderr) is (status == 1)
    file = tmp_path / "demo.json"
    beside = runner.invoke(command.demo, ["--json", str(file)])
    assert beside.exit_code == status
    assert "first attempts failed" in beside.stdout
    assert json.loads(file.read_text()) == json.loads(alone.stdout)


KILLED: Final = observed("broker-killed", 10.0, 10.2)


def test_a_dead_broker_is_left_when_its_last_attempt_ends() -> None:
    tries = [
        try_of(0, "broker-b", 9.9),
        try_of(1, "broker-b", 10.5, failed=True),
        try_of(1, "broker-a", 10.6, number=2),
        try_of(2, "broker-a", 11.0),
    ]
    (outcome,) = report_of(log_of(tries, 12.0), KILLED).outcomes
    assert outcome.seen
    assert outcome.client_s == pytest.approx(0.5)
    assert outcome.noticed_s == pytest.approx(0.2)
    assert (outcome.sent, outcome.failed_first, outcome.lost) == (2, 1, 0)


def test_a_dead_broker_that_is_not_tried_again_is_left_at_once() -> None:
    log = log_of([try_of(0, "broker-b", 9.9), try_of(1, "broker-a", 10.1)], 12.0)
    (outcome,) = report_of(log, KILLED).outcomes
    assert outcome.seen
    assert outcome.client_s == 0.0


def test_the_use_of_a_broker_after_its_return_is_no_use_of_a_dead_one() -> None:
    back = observed("broker-back", 20.1, 20.3, began_s=20.0)
    tries = [try_of(0, "broker-a", 11.0), try_of(1, "broker-b", 20.05), try_of(2, "broker-b", 20.4)]
    killed, returned = report_of(log_of(tries, 22.0), KILLED, back).outcomes
    assert killed.client_s == 0.0
    assert returned.client_s == 0.0
    assert killed.seen
    assert returned.seen


def test_a_client_that_goes_on_using_a_dead_broker_did_not_see_its_death() -> None:
    late_s = KILLED.at_s + KILLED.event.deadline_s + 0.1
    tries = [try_of(0, "broker-b", late_s, failed=True), try_of(0, "broker-a", late_s + 0.1, number=2)]
    report = report_of(log_of(tries, 20.0), KILLED)
    assert not report.outcomes[0].seen
    assert not report.ok


def test_a_broker_is_used_from_its_first_acknowledgement_on() -> None:
    back = observed("broker-back", 20.0, 20.9)
    tries = [
        try_of(0, "broker-b", 20.3, failed=True),
        try_of(0, "broker-a", 20.4, number=2),
        try_of(1, "broker-b", 20.8),
    ]
    (outcome,) = report_of(log_of(tries, 22.0), back).outcomes
    assert outcome.seen
    assert outcome.client_s == pytest.approx(0.8)


def test_all_brokers_have_to_be_used_when_several_start() -> None:
    start = observed("all-start", 0.5, 0.9, began_s=0.0)
    tries = [try_of(0, "broker-a", 0.6), try_of(1, "broker-b", 0.7), try_of(2, "broker-c", 0.8)]
    assert report_of(log_of(tries, 2.0), start).outcomes[0].client_s == pytest.approx(0.3)
    without_c = report_of(log_of(tries[:2], 2.0), start)
    assert without_c.outcomes[0].client_s is None
    assert not without_c.ok


@pytest.mark.parametrize("name", [event.name for event in SCENARIO])
def test_an_effect_that_was_not_noticed_in_time_is_an_event_not_seen(name: str) -> None:
    tries = [try_of(number, name, 10.1 + number) for number, name in enumerate(("broker-b", "broker-c"))]
    report = report_of(log_of(tries, 13.0), observed(name, 10.0, None))
    assert not report.outcomes[0].seen
    assert not report.ok


@pytest.mark.parametrize("name", [event.name for event in SCENARIO])
def test_an_event_during_which_nothing_was_sent_is_not_seen(name: str) -> None:
    assert not report_of(log_of([], 13.0), observed(name, 10.0, 10.1)).ok


@pytest.mark.parametrize("name", ["store-stopped", "store-empty"])
@pytest.mark.parametrize(("last_s", "seen"), [(12.0, True), (12.1, False)])
def test_a_live_broker_must_not_be_dropped_while_the_store_is_away(
    name: str, last_s: float, *, seen: bool
) -> None:
    log = log_of([try_of(0, "broker-a", 10.01), try_of(1, "broker-a", last_s)], last_s + 0.1)
    outage = observed(name, 10.0, 10.1, live={"broker-a"})
    (outcome,) = report_of(log, replace(outage, began_s=10.005)).outcomes
    assert outcome.longest_pause_s == pytest.approx(last_s - 10.01)
    assert outcome.seen is seen


def test_the_longest_pause_is_that_of_the_live_broker_that_was_left_alone_longest() -> None:
    tries = [try_of(number, "broker-a", 10.5 + number / 2) for number in range(4)]
    tries += [try_of(9, "broker-c", 10.5)]
    event = observed("broker-killed", 10.0, 10.1, live={"broker-a", "broker-c"})
    (outcome,) = report_of(log_of(tries, 12.5), event).outcomes
    assert outcome.longest_pause_s == pytest.approx(2.0)


def test_a_message_that_nobody_acknowledged_is_lost() -> None:
    tries = [try_of(7, name, 10.5, number=1 + n, failed=True) for n, name in enumerate("ab")]
    report = report_of(log_of([try_of(6, "broker-a", 10.4), *tries], 12.0), KILLED)
    assert report.outcomes[0].seen
    assert report.outcomes[0].lost == 1
    assert report.losses == ("message 7: gave up",)
    assert not report.ok


def test_a_message_that_is_not_in_the_journal_of_the_broker_that_acknowledged_it_is_lost() -> None:
    log = log_of([try_of(0, "broker-a", 10.4), try_of(1, "broker-c", 10.5)], 12.0)
    report = report_of(replace(log, stored={"broker-a": {0, 1}, "broker-c": set()}), KILLED)
    assert report.losses == ("message 1: broker-c acknowledged it and does not have it",)
    assert not report.ok


def test_a_message_without_any_attempt_is_lost() -> None:
    log = replace(log_of([], 12.0), messages=[Message(0, 10.5, "", "no route")])
    report = report_of(log, KILLED)
    assert (report.sent, report.failed_first, report.losses) == (1, 0, ("message 0: no route",))


def test_every_message_belongs_to_the_event_during_which_it_began() -> None:
    outage = observed("store-stopped", 20.0, 20.1, live={"broker-a"})
    tries = [try_of(number, "broker-a", 10.01 + number) for number in range(12)]
    tries[9] = try_of(9, "broker-a", 20.5)._replace(began_s=19.9)
    report = report_of(log_of(tries, 22.0), KILLED, outage)
    assert [outcome.sent for outcome in report.outcomes] == [10, 2]
    assert report.sent == 12


def test_a_run_in_which_every_event_was_seen_and_nothing_was_lost_is_in_order() -> None:
    report = report_of(log_of([try_of(0, "broker-a", 10.5)], 12.0), KILLED)
    assert report.ok
    assert report.duration_s == pytest.approx(2.0)
