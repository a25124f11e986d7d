"""What is on the standard error of a real process: lines for people, and nothing that Java or Spark says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.fix_spark import need_java
from tests.pipeline.script import script

AWAY: Final = ("--redis", "redis://127.0.0.1:1/0")
"""Nobody listens on this port."""

GOOD: Final = '{"broker":"a","topic":"x"}\n'
LITTLE_ROOM: Final = ("bash", "-c", 'ulimit -f 4; exec "$@"', "bash")
"""No file gets larger than 4 KB: a quota that needs no rights."""

LIKE_OTHERS: Final = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") * (os.geteuid() == 0)
"""What root needs to be refused what other users are."""


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as found:
        yield found


@pytest.fixture(scope="module")
def history(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what an ingest keeps of a broker that came; it says what it does, and nothing else."""
    out = tmp_path_factory.mktemp("kept") / "history"
    with RouteStore.from_url(server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
    done = script("ingest", "--once", "--redis", server.url, "--out", out)
    assert (done.status, done.out) == (0, "2 changes in 1 batches, 0 set aside\n"), done.err
    first, second = done.err.splitlines()
    assert first == f"ingesting into {out}"
    assert second.startswith("batch 0001-000000000000: 2 changes in ")
    return out


def written(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_a_line_that_is_malformed_is_told_in_one_line_and_spark_is_heard_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    path, log = written(tmp_path / "t.jsonl", GOOD + '{"broker":"a","topic":"y"\n' + GOOD), tmp_path / "log"
    done = script("load", path, *AWAY, "--spark-log", log)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith(f"Error: {path}, line 2: is no JSON: ")
    assert "MALFORMED_RECORD_IN_PARSING" in log.read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "t.jsonl",
            GOOD + '{"broker":"a","to',
            "{path}, line 2: is no JSON: unexpected end of data at column ",
        ),
        ("t.csv", "broker,topic,perm\na,x,6\na,y\n", "{path}, line 3: has 2 columns, and the header 3: a,y"),
        ("t.parquet", "no parquet", "reading {path} failed: "),
    ],
)
def test_a_file_that_is_torn_or_something_else_is_told_in_one_line(
    tmp_path: Path, name: str, content: str, problem: str
) -> None:
    path = written(tmp_path / name, content)
    done = script("load", path, *AWAY)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1), done.err
    assert done.err.startswith(f"Error: {problem.format(path=path)}")


@pytest.mark.long
def test_a_report_on_a_full_disk_says_so_in_its_last_line(history: Path, tmp_path: Path) -> None:
    done = script("report", "--changes", history, "--out", tmp_path / "report", before=LITTLE_ROOM)
    *progress, last = done.err.splitlines()
    assert last == ("Error: pipeline report could not write: File too large; make room and start it again"), (
        done.err
    )
    assert all(line.partition("/")[0].isdigit() for line in progress)
    assert (done.status, done.out) == (1, "")


@pytest.mark.long
def test_a_history_that_this_release_cannot_keep_is_told_in_one_line(
    server: EmbeddedServer, history: Path, tmp_path: Path
) -> None:
    newer = shutil.copytree(history, tmp_path / "newer")
    for entry in (newer / "_ingest").glob("*.json"):
        written(entry, entry.read_text().replace('"format":1', '"format":2'))
        entry.with_name(f".{entry.name}.crc").unlink()
    ingest = ("ingest", "--once", "--redis", server.url, "--out")
    others = "and not of other: use another out, or name all of them"
    for status, words, problem in (
        (1, (*ingest, newer), "is of a newer sharedroutes (format 2, known is 1): upgrade"),
        (1, (*ingest, history, "--namespace", "other"), others),
        (2, ("report", "--changes", newer, "--out", tmp_path / "report"), "is of a newer sharedroutes"),
    ):
        done = script(*words)
        told = [line for line in done.err.splitlines() if not line.startswith("ingesting into ")]
        assert (done.status, done.out, len(told)) == (status, "", 1), done.err
        assert told[0].startswith("Error: ")
        assert problem in told[0]


@pytest.mark.long
def test_a_folder_that_may_not_be_read_is_told_in_one_line(history: Path, tmp_path: Path) -> None:
    closed = shutil.copytree(history, tmp_path / "history")
    (closed / "changes" / "day=2026-11-20").mkdir(mode=0)
    done = script("ask", "table", "--at", "now", "--changes", closed, before=LIKE_OTHERS)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert done.err.startswith("Error: --changes: ")
    assert "day=2026-11-20" in done.err


@pytest.mark.long
def test_why_java_does_not_start_is_in_the_log_that_the_error_names(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", GOOD)
    wrong = ("load", path, *AWAY, "--driver-memory", "1x")
    done, heard = script(*wrong), script(*wrong, "--spark-log", "-")
    assert (done.status, done.err.count("\n")) == (1, 1), done.err
    assert "--spark-log" in done.err
    assert heard.err.endswith(done.err)
    assert "1x" in heard.err.removesuffix(done.err)
    nowhere = script("load", path, *AWAY, "--spark-log", tmp_path / "none" / "log")
    assert (nowhere.status, nowhere.err[:20]) == (2, "Error: --spark-log: ")
