"""`changes`: what people read, and what programs read; following through the absence of the store."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from sharedroutes.daemon.printing import iso
from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.cli.terminal import COMMAND, at_terminal, environment, run, started
from tests.fix_redis import PATIENT
from tests.ports import free_port
from tests.support import wait_until

WAITING = "the store cannot be reached"


def test_a_change_has_its_id_a_local_time_with_offset_and_the_names_of_topics(
    store: RouteStore, redis_url: str
) -> None:
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders"), TopicConfig("audit")])
    changes = store.changes_since("0-0").changes
    with started("changes", "--redis", redis_url) as done:
        text, said = done.communicate()
    head, *lines = text.splitlines()
    assert (done.returncode, said) == (0, "")
    assert head.split() == ["id", "time", "change", "of", "what"]
    for change, line in zip(changes, lines, strict=True):
        change_id, when, kind, name, *_ = line.split()
        assert (change_id, kind, name) == (change.change_id, change.kind, "broker-a:0")
        moment = datetime.fromisoformat(when)
        assert moment.timestamp() == int(change_id.partition("-")[0]) / 1_000
        assert moment.utcoffset() in (timedelta(hours=1), timedelta(hours=2))  # Europe/Berlin
    assert lines[0].endswith("added 2: audit orders")
    assert lines[1].endswith("  10.0.0.1:10911")


def test_programs_get_the_milliseconds(store: RouteStore, redis_url: str) -> None:
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
    done = run(redis_url, "changes", "--output", "ndjson")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["changeId"] for record in records] == [
        change.change_id for change in store.changes_since("0-0").changes
    ]


def test_a_terminal_is_shown_some_of_many_topics_and_a_pipe_all(store: RouteStore, redis_url: str) -> None:
    names = [f"topic-{number:03}" for number in range(50)]
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig(name) for name in names])
    shown = at_terminal(100, "changes", "--redis", redis_url).text.split()
    assert [name for name in names if name in shown] == names[:20]
    assert "30 more" in " ".join(shown)
    piped = run(redis_url, "changes").stdout.split()
    assert set(names) <= set(piped)


def test_a_moment_that_no_calendar_has_is_unknown() -> None:
    assert iso(10**19) == iso(None) == "unknown"


class Follower:
    """`changes --follow` as a process, which writes into files."""

    def __init__(self, url: str, folder: Path) -> None:
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            command = [*COMMAND, "changes", "--follow", "--redis", url]
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=environment())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def until(self, file: Path, text: str) -> None:
        wait_until(lambda: text in file.read_text(), timeout_s=60.0, description=f"{text!r} is said")

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.process.wait(30.0)


def test_a_follower_waits_for_a_store_that_is_away_and_says_so_once(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    own_server.stop()
    with Follower(own_server.url, tmp_path) as follower:
        follower.until(follower.err, WAITING)
        own_server.start()
        follower.until(follower.err, "the store answers")
        with RouteStore.from_url(own_server.url, PATIENT) as store:
            store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        follower.until(follower.out, "broker-a:0")
        assert follower.end(signal.SIGINT) == 130
    assert follower.err.read_text().count(WAITING) == 1
    assert "Aborted" not in follower.err.read_text()
    assert "Traceback" not in follower.err.read_text()


def test_a_follower_says_once_that_the_store_went_away_later(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    with RouteStore.from_url(own_server.url, PATIENT) as store:
        store.kv.put("ns", "k", "1")
    with Follower(own_server.url, tmp_path) as follower:
        follower.until(follower.out, "ns/k")
        own_server.stop()
        follower.until(follower.err, WAITING)
        own_server.start()
        follower.until(follower.err, "the store answers again")
        assert follower.end(signal.SIGTERM) == 143
    assert follower.err.read_text().count("changes wait until the store answers again") == 1


def test_an_interrupt_ends_a_follower_that_waits_for_the_store(tmp_path: Path) -> None:
    with Follower(f"redis://127.0.0.1:{free_port()}/0", tmp_path) as follower:
        follower.until(follower.err, WAITING)
        assert follower.end(signal.SIGINT) == 130
    assert follower.err.read_text().count("\n") == 1
