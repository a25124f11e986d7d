"""Commands that are killed in the middle: nothing is lost or half written, and the next run is right."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from subprocess import Popen

import pytest

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from sharedroutes.registry.past import ms_of
from tests.fix_spark import need_java
from tests.pipeline.script import await_line, kill, script, started
from tests.support import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TOPICS = 600


def python_alone(process: Popen[str]) -> None:
    """Kill the process that was started and not Java, which ends by itself."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def files_of(folder: Path) -> dict[str, str]:
    """Return what a reader sees: files by their paths, but for those that are unfinished."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not str(path.relative_to(folder)).startswith("_unfinished/")
    }


@pytest.mark.parametrize("killed", [kill, python_alone])
def test_a_report_that_is_killed_leaves_the_former_one_and_the_next_one_is_whole(
    own_server: EmbeddedServer, tmp_path: Path, killed: Callable[[Popen[str]], None]
) -> None:
    need_java()
    history, out = tmp_path / "history", tmp_path / "report"
    ingest = ("ingest", "--once", "--redis", own_server.url, "--out", history)
    report = ("report", "--changes", history, "--out", out)
    with RouteStore.from_url(own_server.url) as store:
        held = store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        assert script(*ingest).status == 0
        assert script(*report, "--title", "former").status == 0
        former = files_of(out)
        store.unregister(held)
        until = ("--until", ms_of(store.changes_since().changes[-1]) + 1)
    assert script(*ingest).status == 0
    with started(*report, *until, "--title", "killed") as process:
        await_line(process, "6/")
        killed(process)
    assert (out / "_unfinished").is_dir()
    assert files_of(out) == former
    done = script(*report, *until, "--title", "next")
    assert (done.status, done.out) == (0, f"{out}/report.html\n")
    assert not (out / "_unfinished").exists()
    assert "<title>next</title>" in (out / "report.html").read_text()
    anew = tmp_path / "anew"
    assert script("report", "--changes", history, "--out", anew, *until).status == 0
    assert texts_of(out) == texts_of(anew)


def texts_of(out: Path) -> dict[str, str]:
    """Return all tables as CSV."""
    return {path.parent.name: path.read_text() for path in (out / "tables").glob("*.csv/*.csv")}


def written(store: RouteStore) -> set[str]:
    """Return the topics that some broker was given."""
    return {topic for change in store.changes_since(limit=1_000).changes for topic in change.added}


def test_a_load_that_is_killed_goes_on_when_it_is_run_again(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    need_java()
    path = tmp_path / "t.csv"
    topics = {f"topic-{number}": f"broker-{number % 20}" for number in range(TOPICS)}
    path.write_text("\n".join(("topic,broker", *map(",".join, topics.items()), "")))
    load = ("load", path, "--redis", own_server.url)
    with RouteStore.from_url(own_server.url) as store:
        with started(*load, "--max-per-second", 20) as process:
            wait_until(partial(written, store), timeout_s=300, description="something is written")
            kill(process)
        assert written(store) < set(topics)
        assert script(*load).status == 0
        assert written(store) == set(topics)
    again = script(*load)
    assert "topics: 0 added, 0 changed, 0 removed, 600 as they were" in again.out
