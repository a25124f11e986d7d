"""What the name server demo makes of what it was told; it runs as a whole in tests/interop."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Final

import pytest
from rich.console import Console

from demo.nameserver.front_watch import Answer
from demo.nameserver.results import Observed, Report, summary, to_json
from demo.nameserver.scenario import BROKERS, SCENARIO, TOPIC
from demo.nameserver.show import front_cells
from demo.nameserver.traffic import Said, Traffic

BOTH: Final = frozenset(BROKERS)
OBSERVED: Final = tuple(Observed(event, 10.0 * place, 0.5) for place, event in enumerate(SCENARIO))


def sent(*numbers: int, at_s: float = 0.0) -> list[Said]:
    return [Said(at_s, "sent", number, BROKERS[0]) for number in numbers]


def received(*numbers: int, at_s: float = 0.0) -> list[Said]:
    return [Said(at_s, "received", number, BROKERS[0]) for number in numbers]


def test_messages_are_counted_in_all_and_between_events() -> None:
    said = [*sent(0, 1, at_s=1.0), *received(0, at_s=2.0), *sent(2, at_s=12.0), *received(1, 2, 2, at_s=13.0)]
    report = Report.of(OBSERVED, said, 100.0)
    assert report.ok
    assert (report.sent, report.received, report.repeated, report.lost) == (3, 3, 1, 0)
    assert [(one.sent, one.received) for one in report.outcomes[:3]] == [(2, 1), (1, 3), (0, 0)]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ([*sent(0, 1), *received(0)], "1 lost"),
        ([*sent(0), *received(0), Said(5.0, "failed", 1, "no broker")], "1 sends failed"),
        ([], "0 messages sent"),
    ],
)
def test_a_lost_message_a_failed_send_or_none_at_all_is_no_success(said: list[Said], text: str) -> None:
    report = Report.of(OBSERVED, said, 100.0)
    assert not report.ok
    assert '"ok": false' in to_json(report)
    assert text in printed(report)


def test_an_event_that_was_not_seen_is_no_success() -> None:
    report = Report.of((*OBSERVED[:-1], Observed(SCENARIO[-1], 90.0, None)), [*sent(0), *received(0)], 100.0)
    assert not report.ok
    assert f"9 of {len(SCENARIO)} events seen" in printed(report)
    assert f"{SCENARIO[-1].short_title}: NOT SEEN within" in printed(report)


def test_the_result_fits_80_columns() -> None:
    report = Report.of(OBSERVED, [*sent(*range(10_000), at_s=95.0), *received(*range(10_000))], 100.0)
    table = printed(report).splitlines()[: len(SCENARIO) + 9]
    assert all(len(line.rstrip()) <= 80 for line in table)
    assert all(any(event.short_title in line for line in table) for event in SCENARIO)


def printed(report: Report) -> str:
    console = Console(width=200, record=True, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(summary(report))
    return captured.get()


def test_the_strip_of_a_front_shows_its_worst_answer() -> None:
    answers = [
        Answer(0.2, TOPIC, BOTH),
        Answer(0.4, TOPIC, frozenset(BROKERS[:1])),
        Answer(1.2, TOPIC, BOTH),
        Answer(2.2, TOPIC, BOTH),
        Answer(2.4, TOPIC, None),
    ]
    assert front_cells(answers, 0.0, 0, 3) == "▄█··"


def test_what_the_clients_print_is_read_and_other_lines_are_not() -> None:
    script = "print('sent 1 broker-a\\nreceived 1 broker-a\\nnonsense\\nfailed 2 no route: x y\\ndone')"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        traffic = Traffic(process)
        traffic.end()
    assert [one[1:] for one in traffic.said] == [
        ("sent", 1, "broker-a"),
        ("received", 1, "broker-a"),
        ("failed", 2, "no route: x y"),
    ]
    assert traffic.is_done
    assert traffic.lost() == set()
    assert traffic.has_used(frozenset(("broker-a",)), 0.0, "sent", "received")
    assert not traffic.has_used(frozenset(("broker-b",)), 0.0, "sent")


def test_the_events_have_bounds_and_their_titles_differ() -> None:
    assert all(event.bound_s > 0 for event in SCENARIO)
    assert all(one.title != other.title for one, other in pairwise(SCENARIO))
