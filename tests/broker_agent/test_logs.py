"""The log of the agent: lines that people read, and lines that machines read."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.daemon import logs
from sharedroutes.daemon.logs import JsonLines, LogOutput, TextLines
from tests.support import wait_until

LOG = logging.getLogger("sharedroutes.broker_agent")
OF_OTHERS = logging.getLogger("somebody.else")
ANYTHING = st.text(st.characters())  # with the halves of surrogate pairs, as in names of files


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread that writes be as slow as it likes."""
    monkeypatch.setattr(logs, "_LAST_WORDS_S", 30.0)


def logged(log_format: str, level: str, act: Callable[[], object]) -> list[str]:
    written: list[bytes] = []
    with LogOutput(log_format, level, written.append):
        act()
    return b"".join(written).decode().splitlines()


def a_fault() -> None:
    try:
        int("broken")
    except ValueError:
        LOG.exception("a fault of %s", "somebody")


def test_a_line_of_text_has_the_time_in_utc_the_level_and_the_message() -> None:
    (line,) = logged("text", "info", lambda: LOG.warning("the broker is %s", "gone"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING the broker is gone", line)


def test_the_time_is_that_of_the_record() -> None:
    record = logging.makeLogRecord({"created": 1_700_000_000.25, "levelname": "INFO", "msg": "x"})
    assert TextLines().format(record) == "2023-11-14T22:13:20.250Z INFO x"
    time = json.loads(JsonLines().format(record))["time"]
    assert datetime.fromisoformat(time) == datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC)


def test_a_line_of_json_has_the_fields_beside_the_message() -> None:
    extra = {"broker": "broker-a:0", "topics": 3, "keys": ("x", "y"), "error_of": ValueError("v")}
    (line,) = logged("json", "info", lambda: LOG.info("registered", extra=extra))
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "info",
        "logger": "sharedroutes.broker_agent",
        "message": "registered",
        "broker": "broker-a:0",
        "topics": 3,
        "keys": ["x", "y"],
        "error_of": "v",
    }


def test_a_fault_is_one_line_of_json_with_its_traceback_and_several_of_text() -> None:
    (line,) = logged("json", "info", a_fault)
    assert json.loads(line)["message"] == "a fault of somebody"
    assert json.loads(line)["error"].endswith("ValueError: invalid literal for int() with base 10: 'broken'")
    assert (
        logged("text", "info", a_fault)[-1] == "ValueError: invalid literal for int() with base 10: 'broken'"
    )


def test_a_field_never_takes_the_place_of_the_message_or_the_time() -> None:
    (line,) = logged("json", "info", lambda: LOG.info("m", extra={"time": "t", "level": "l"}))
    found = json.loads(line)
    assert (found["level"], found["time_"], found["level_"]) == ("info", "t", "l")


@given(ANYTHING, st.dictionaries(ANYTHING, st.one_of(ANYTHING, st.integers(), st.floats(), st.binary())))
def test_whatever_is_logged_makes_one_line_of_json(message: str, fields: dict[str, Any]) -> None:
    line = JsonLines().format(logging.makeLogRecord({"levelname": "INFO", "msg": message, "fields": fields}))
    assert "\n" not in line
    found = json.loads(line)
    assert found["level"] == "info"
    assert found["message"] == message.encode("utf-8", "backslashreplace").decode()


def test_what_is_less_than_the_level_is_not_logged_and_of_others_only_warnings() -> None:
    def act() -> None:
        for log in (LOG, OF_OTHERS):
            log.debug("d")
            log.info("i")
            log.warning("w")

    assert [line.split()[1:] for line in logged("text", "info", act)] == [
        ["INFO", "i"],
        ["WARNING", "w"],
        ["WARNING", "w"],
    ]
    assert logged("text", "debug", act)[0].endswith("DEBUG d")
    assert not [line for line in logged("text", "error", act) if line.endswith("i")]


def test_format_and_level_can_be_changed_while_it_is_in_use() -> None:
    written: list[bytes] = []
    with LogOutput("text", "error", written.append) as log:
        LOG.info("unheard")
        log.use("json", "info")
        LOG.info("heard")
    (line,) = written
    assert json.loads(line)["message"] == "heard"


def test_whoever_stops_reading_the_log_does_not_stop_the_agent() -> None:
    reads, lines = threading.Event(), list[bytes]()

    def sink(line: bytes) -> None:
        reads.wait()
        lines.append(line)

    with LogOutput("text", "info", sink):
        for number in range(5_000):
            LOG.info("line %s", number)
        reads.set()

        def has_heard_of_the_loss() -> bool:
            LOG.info("another line")
            return any(b"lines of the log were lost: they were not read in time" in line for line in lines)

        wait_until(has_heard_of_the_loss, description="there is room again")
    assert lines[0].endswith(b" line 0\n")
    assert lines[-1].endswith(b" another line\n")


def test_an_end_does_not_wait_long_for_whoever_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LAST_WORDS_S", 0.25)
    reads = threading.Event()
    with LogOutput("text", "info", lambda _: reads.wait()):
        for number in range(5_000):
            LOG.info("line %s", number)
    reads.set()


def test_the_last_words_are_written_when_the_process_is_about_to_end_at_once() -> None:
    written: list[bytes] = []
    with LogOutput("text", "info", written.append) as log:
        for number in range(100):
            LOG.info("line %s", number)
        log.finish()
        assert written[-1].endswith(b" line 99\n")


def test_a_log_that_is_closed_does_no_harm() -> None:
    lines: list[bytes] = []

    def sink(line: bytes) -> None:
        if b"unheard" in line:
            raise BrokenPipeError
        lines.append(line)

    with LogOutput("text", "info", sink):
        LOG.info("unheard")
        LOG.info("heard")
    assert lines[-1].endswith(b" heard\n")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_afterwards_logging_is_as_before(log_format: str) -> None:
    before = logging.getLogger("sharedroutes").level, list(logging.getLogger().handlers)
    logged(log_format, "debug", lambda: None)
    assert (logging.getLogger("sharedroutes").level, logging.getLogger().handlers) == before
