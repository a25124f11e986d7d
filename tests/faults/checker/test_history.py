"""What is written into the files of a history is what is read, in the order of time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sharedroutes.registry import Change as RegistryChange
from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import (
    BadHistory,
    Bounds,
    Item,
    Late,
    Lease,
    Record,
    Replica,
    Route,
    Run,
    TableContent,
    Writer,
    read_history,
)

BOUNDS = Bounds(lease_ms=3_000, stale_ms=1_500, hold_ms=3_000, converge_ms=9_000, first_failures=3, rss_kb=1)
RUN = Run(at_us=1, who="driver", deployment="standalone", seed=7, bounds=BOUNDS)
BROKER = Replica("broker-a", 0, "127.0.0.1:10911")
LEASE = Lease(at_us=3, who="auditor", broker="broker-a", id=0, epoch=5, address=BROKER.address, left_ms=9)
ROUTE = Route(at_us=2, who="client", topic="orders", brokers=(BROKER,), held=("broker-a",))
RESET = Item(
    at_us=4, who="auditor", kind="reset", id="0-0", table=TableContent((BROKER,), {"broker-a": ("orders",)})
)


def test_the_files_of_all_processes_are_merged_by_time(tmp_path: Path) -> None:
    for who, events in {"auditor": (LEASE, RESET), "client": (ROUTE,), "driver": (RUN,)}.items():
        with Writer(tmp_path, who) as writer:
            for event in events:
                writer.write(event)
    assert read_history(tmp_path) == [RUN, ROUTE, LEASE, RESET]


def test_a_writer_says_who_and_when_and_goes_on_with_its_file(tmp_path: Path) -> None:
    for late_ms in (10, 20):
        with Writer(tmp_path, "watchdog") as writer:
            writer.write(Late(late_ms=late_ms))
    with Writer(tmp_path, "driver") as writer:
        writer.write(RUN)
    _, first, second = read_history(tmp_path)
    assert isinstance(first, Late)
    assert (first.who, first.late_ms) == ("watchdog", 10)
    assert 0 < first.at_us <= second.at_us


def test_the_record_of_a_change_keeps_what_the_rules_need() -> None:
    change = RegistryChange(
        kind=ChangeKind.TOPICS, broker_name="broker-a", epoch=4, added=("orders",), user="x"
    )
    assert Record.of(change) == Record(kind="topics", broker="broker-a", epoch=4, added=("orders",))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "truncated"),
        (b'{"at_us":1,"who":"x","what":"dream"}', "dream"),
        (b'{"at_us":1,"who":"x","what":"late"}', "late_ms"),
        (b'{"at_us":1,"who":"x","what":"late","late_ms":"9"}', "int"),
        (b'{"at_us":1,"who":"x","what":"late","late_ms":9,"lateness":1}', "lateness"),
        (b'{"who":"x","what":"late","late_ms":9}', "at_us"),
        (b'{"at_us":1,"what":"late","late_ms":9}', "who"),
    ],
)
def test_a_line_that_is_no_event_is_named_with_file_and_line(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    with Writer(tmp_path, "driver") as writer:
        writer.write(RUN)
    path = tmp_path / "driver.jsonl"
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(BadHistory, match=f"^{re.escape(str(path))}:2: .*{reason}"):
        read_history(tmp_path)


def test_a_history_begins_with_its_run(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="begins with `run`"):
        read_history(tmp_path)
    with Writer(tmp_path, "watchdog") as writer:
        writer.write(Late(at_us=RUN.at_us, late_ms=1))
    with pytest.raises(BadHistory, match="begins with `run`"):
        read_history(tmp_path)
