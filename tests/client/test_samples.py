"""What a recorder of samples writes, and that nobody who sends suffers from it."""

from __future__ import annotations

import json
import logging
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.client import ClientConfig, RetryPolicy
from sharedroutes.client.attempts.attempt import Attempts
from sharedroutes.client.attempts.log import AttemptLog
from sharedroutes.client.core import ClientCore
from sharedroutes.client.observers import samples as module
from sharedroutes.client.observers.events import AttemptEnded, ClockRead, FeedLost
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.registry import InvalidInput, RouteStore
from sharedroutes.registry.plans.expiry import server_time
from tests.client.attempting import QUEUES, RESET, Bench
from tests.client.clients import Stage, attempt
from tests.client.heard import PLACE, Core, Heard
from tests.registry.builders import broker, topics
from tests.support import await_until

OK: Final = AttemptEnded("t", "a", 0.25, "ok")
FAILED: Final = AttemptEnded("t", "a", 3.0, "failed", 2, "7-0", isolated=True)
LONG_S: Final = 3_600.0


class Clock:
    """The monotonic clock of the recorder."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _written_by_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FLUSH_S", LONG_S)


@pytest.fixture
def written_at_once(monkeypatch: pytest.MonkeyPatch, _written_by_the_test: None) -> None:
    monkeypatch.setattr(module, "_FLUSH_S", 0.01)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
def recorder(tmp_path: Path, clock: Clock) -> Iterator[SampleRecorder]:
    """Return a recorder of everything that knows the store's clock, which is 1000 s ahead, to 2 ms."""
    with SampleRecorder(tmp_path, client="c", share=1.0) as found:
        found.on_event(ClockRead(clock.now + 1_000, clock.now, 0.002))
        yield found


def _written(folder: Path) -> list[dict[str, Any]]:
    """Return the samples in the files of a folder, the first file first."""
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_bytes().splitlines()]


def _store_ms(store: RouteStore) -> float:
    now_us = store.run(server_time())
    assert isinstance(now_us, int)
    return now_us / 1000


# --- what is written ----------------------------------------------------------------------------------------


def test_a_sample_says_all_that_is_known(tmp_path: Path, recorder: SampleRecorder) -> None:
    recorder.on_event(FAILED)
    recorder.flush()
    (row,) = _written(tmp_path)
    assert row == {
        "client": "c", "at_ms": 1_100_000, "error_ms": 2.5, "topic": "t", "broker": "a",
        "latency_ms": 3_000.0, "outcome": "failed", "isolated": True, "attempt": 2, "position": "7-0",
        "share": 1.0,
    }  # fmt: skip


def test_a_sample_names_its_registry_if_the_recorder_was_told(tmp_path: Path, clock: Clock) -> None:
    with SampleRecorder(tmp_path, registry="eu", share=1.0, wall_clock=lambda: 0.0) as recorder:
        recorder.on_event(OK)
    (row,) = _written(tmp_path)
    assert (row["registry"], recorder.registry) == ("eu", "eu")


def test_its_time_is_when_the_attempt_ended_and_less_sure_the_older_the_clock(
    tmp_path: Path, recorder: SampleRecorder, clock: Clock
) -> None:
    clock.now += 10
    recorder.on_event(OK)
    clock.now += 5
    recorder.flush()
    (row,) = _written(tmp_path)
    assert row["at_ms"] == 1_110_000
    assert row["error_ms"] == 2.5 + 0.5 * 10  # 500 millionths of 10 s


def test_without_the_stores_clock_the_one_that_was_handed_in_is_used(tmp_path: Path, clock: Clock) -> None:
    with SampleRecorder(tmp_path, share=1.0, wall_clock=lambda: 5_000.0) as recorder:
        recorder.on_event(OK)
        clock.now += 2
        recorder.flush()
        recorder.on_event(ClockRead(9_000.0, clock.now, 0.0))
        recorder.on_event(OK)
    assert [(row["at_ms"], row["error_ms"]) for row in _written(tmp_path)] == [
        (4_998_000, None),
        (9_000_000, 0.5),
    ]


def test_without_any_clock_samples_wait_for_one(tmp_path: Path, clock: Clock) -> None:
    with SampleRecorder(tmp_path, share=1.0) as recorder:
        recorder.on_event(OK)
        recorder.flush()
        assert _written(tmp_path) == []
        recorder.on_event(ClockRead(9_000.0, clock.now, 0.0))
        recorder.flush()
        assert len(_written(tmp_path)) == 1


def test_what_waited_in_vain_is_counted_at_the_end(tmp_path: Path) -> None:
    recorder = SampleRecorder(tmp_path, share=1.0)
    recorder.on_event(OK)
    recorder.close()
    assert recorder.dropped == 1


def test_other_events_are_not_recorded(tmp_path: Path, recorder: SampleRecorder) -> None:
    recorder.on_event(FeedLost("1-0"))
    recorder.flush()
    assert _written(tmp_path) == []


def test_nothing_is_recorded_after_the_end(tmp_path: Path, recorder: SampleRecorder) -> None:
    recorder.close()
    recorder.on_event(OK)
    recorder.close()
    assert _written(tmp_path) == []
    assert recorder.dropped == 0


# --- how many -----------------------------------------------------------------------------------------------


def test_a_share_of_the_attempts_is_recorded_and_each_says_which(tmp_path: Path, clock: Clock) -> None:
    with SampleRecorder(
        tmp_path, share=0.1, failure_share=0.5, rng=random.Random(7), wall_clock=lambda: 0.0
    ) as recorder:
        for _ in range(10_000):
            recorder.on_event(OK)
            recorder.on_event(FAILED)
    rows = _written(tmp_path)
    shares = {
        outcome: [row["share"] for row in rows if row["outcome"] == outcome] for outcome in ("ok", "failed")
    }
    assert {outcome: set(found) for outcome, found in shares.items()} == {"ok": {0.1}, "failed": {0.5}}
    # 10,000 each, by what the samples stand for: give or take four standard deviations.
    assert abs(sum(1 / share for share in shares["ok"]) - 10_000) < 4 * (10_000 * 9) ** 0.5
    assert abs(sum(1 / share for share in shares["failed"]) - 10_000) < 4 * 10_000**0.5


def test_the_same_seed_records_the_same_attempts(tmp_path: Path, clock: Clock) -> None:
    chosen = []
    for name in ("one", "two"):
        with SampleRecorder(
            tmp_path / name, share=0.3, rng=random.Random(3), wall_clock=lambda: 0.0
        ) as recorder:
            for number in range(100):
                recorder.on_event(AttemptEnded("t", "a", 0.1, "ok", number))
        chosen.append([row["attempt"] for row in _written(tmp_path / name)])
    assert chosen[0] == chosen[1]
    assert 10 < len(chosen[0]) < 60


def test_what_the_buffer_does_not_hold_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BUFFER", 2)
    with SampleRecorder(tmp_path, share=1.0, wall_clock=lambda: 0.0) as recorder:
        for _ in range(5):
            recorder.on_event(OK)
    assert (len(_written(tmp_path)), recorder.dropped) == (2, 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"share": 0.0},
        {"share": 1.1},
        {"failure_share": 0.0},
        {"files": 0},
        {"file_bytes": 0},
        {"client": "x" * 101},
        {"registry": "x" * 101},
        {"registry": None},
        {"wall_clock": 5.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(settings))):
        SampleRecorder(tmp_path, **settings)


# --- faults -------------------------------------------------------------------------------------------------


def test_a_disk_that_fails_is_said_once_counted_and_forgiven(
    tmp_path: Path, recorder: SampleRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "in the way"
    folder.write_text("no folder")
    with SampleRecorder(folder, share=1.0, wall_clock=lambda: 0.0) as blocked:
        with caplog.at_level(logging.ERROR, "sharedroutes.client"):
            for _ in range(3):
                blocked.on_event(OK)
                blocked.flush()
        assert (blocked.dropped, len(caplog.records)) == (3, 1)
        folder.unlink()
        blocked.on_event(OK)
        blocked.flush()
        assert blocked.dropped == 3
        assert len(_written(folder)) == 1


@pytest.mark.usefixtures("written_at_once")
async def test_the_thread_writes_by_itself(tmp_path: Path) -> None:
    with SampleRecorder(tmp_path, share=1.0, wall_clock=lambda: 0.0) as recorder:
        recorder.on_event(OK)
        await await_until(lambda: len(_written(tmp_path)) == 1, description="the sample is written")


@pytest.mark.usefixtures("written_at_once")
def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    with SampleRecorder(tmp_path, share=1.0, wall_clock=lambda: 0.0) as recorder:

        def send() -> None:
            for _ in range(500):
                recorder.on_event(OK)

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(_written(tmp_path)), recorder.dropped) == (4_000, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # of Python 3.12
def test_a_fork_writes_its_own_samples_to_its_own_file_under_its_own_name(
    tmp_path: Path, recorder: SampleRecorder
) -> None:
    recorder.on_event(OK)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            recorder.on_event(FAILED)
            recorder.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert sorted((row["client"], row["outcome"]) for row in _written(tmp_path)) == [
        ("c", "ok"),
        (f"c-{child}", "failed"),
    ]
    assert len(list(tmp_path.iterdir())) == 2


# --- with the client ----------------------------------------------------------------------------------------


def test_an_attempt_tells_its_number_the_position_and_whether_its_broker_was_isolated(
    tmp_path: Path, clock: Clock
) -> None:
    with SampleRecorder(tmp_path, share=1.0, wall_clock=lambda: 0.0) as recorder:
        core, bench = Core(None, recorder).begin(), Bench()
        bench.queues = QUEUES[:1]
        log = AttemptLog(
            "t", RetryPolicy(pause_s=0.0), core.brokers.record, tell=core.tell_attempt, see=core.see
        )
        errors = iter((RESET, None))
        for one in Attempts(log, bench.select):
            with one:
                if (error := next(errors)) is not None:
                    raise error
    rows = _written(tmp_path)
    assert [(row["attempt"], row["outcome"], row["position"], row["isolated"]) for row in rows] == [
        (1, "failed", PLACE, False),
        (2, "ok", PLACE, True),
    ]


def test_a_broker_that_is_left_alone_is_told_as_isolated_until_it_is_back() -> None:
    core = Core().begin()
    assert core.see("a", 0.0) == (PLACE, False)
    core.fail("a")
    assert core.see("a", 9.9) == (PLACE, True)
    assert core.see("b", 9.9) == (PLACE, False)
    assert core.see("a", 10.1) == (PLACE, False)


def test_a_client_without_observers_looks_at_nothing() -> None:
    def see(_broker_name: str, _now: float) -> tuple[str, bool]:
        raise AssertionError("nobody wants to know")

    assert ClientCore(ClientConfig()).tell_attempt is None, "the log does not want to know of attempts"
    assert Core().tell_attempt is not None
    AttemptLog("t", RetryPolicy(), Bench().record, tell=None, see=see).begin(QUEUES[0], 0.0)


async def test_a_client_tells_the_stores_clock_and_its_attempts(stage: Stage, tmp_path: Path) -> None:
    stage.agent.register(broker(), topics(1))
    heard = Heard()
    with SampleRecorder(tmp_path, share=1.0) as recorder:
        async with stage.client(observers=(recorder, heard)) as client:
            await await_until(lambda: heard.all(ClockRead), description="the clock is known")
            before_ms = _store_ms(stage.agent)
            await attempt(client, "t0", lambda _queue: None)
            after_ms = _store_ms(stage.agent)
            position = client.health().position
        recorder.flush()
    (row,) = _written(tmp_path)
    assert (row["topic"], row["broker"], row["outcome"], row["attempt"]) == ("t0", "broker-a", "ok", 1)
    assert (row["position"], row["isolated"]) == (position, False)
    assert before_ms - row["error_ms"] <= row["at_ms"] <= after_ms + row["error_ms"]
