"""What only a fault can see is judged by when it came."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from tests.faults.checker.history import FAILOVER, Event, Fault, Late
from tests.faults.checker.promises import PROMISED
from tests.faults.checker.story import BROKERS, CLIENTS, Story, calm, reasons
from tests.faults.checker.test_operators import fault

WITHIN_MS: Final = 5_000
WHAT: Final = "a client reads at a replica again"
WHO: Final = CLIENTS[0]


def violations(story: Story, took_ms: int, *more: Event, since_ms: int = 0) -> list[str]:
    """Return what is wrong when something took so long, from some time after a fault had begun."""
    since_us = 1_000 * (story.now_ms + since_ms)
    details = {PROMISED: [WHAT, WITHIN_MS, since_us, since_us + 1_000 * took_ms, WHO]}
    around = fault(story, "replicas-cut", WHO, since_ms + took_ms + 200, details=details)
    return reasons([*story.events, *around, *more], "d", WHAT)


@pytest.mark.parametrize(("took_ms", "wrong"), [(WITHIN_MS - 1, 0), (WITHIN_MS + 1, 1)])
def test_what_comes_later_than_promised_is_a_violation(took_ms: int, wrong: int) -> None:
    assert violations(calm(), took_ms) == [f"{WHAT}: not within {WITHIN_MS} ms"] * wrong


@pytest.mark.parametrize(("process", "wrong"), [(WHO, 0), ("", 0), (CLIENTS[1], 1)])
def test_a_promise_waits_for_the_machine_that_does_not_run_who_has_to_keep_it(
    process: str, wrong: int
) -> None:
    story = calm()
    late = Late(at_us=1_000 * (story.now_ms + 1_000), who="watchdog", late_ms=200, process=process)
    assert len(violations(story, WITHIN_MS + 100, late)) == wrong


@pytest.mark.parametrize(
    ("name", "since_ms", "wrong"),
    [
        ("cut", 0, 0),
        ("cut", 2_000, 0),
        (FAILOVER, 0, 0),
        (FAILOVER, 2_000, 1),
    ],  # the last one is what it does
)
def test_a_promise_is_not_for_a_time_in_which_there_is_another_fault(
    name: str, since_ms: int, wrong: int
) -> None:
    story = calm()
    at_us = 1_000 * (story.now_ms + 1_000)
    begin = Fault(at_us=at_us, who="scheduler", name=name, target=BROKERS[0], phase="begin")
    end = replace(begin, at_us=at_us + 1, phase="end")
    assert len(violations(story, WITHIN_MS + 100, begin, end, since_ms=since_ms)) == wrong
