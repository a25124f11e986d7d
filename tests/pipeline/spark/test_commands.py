"""The commands of the pipeline, from their options to what they print and how they end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from tests.pipeline.commands import Ran, run

ROCKETMQ: Final = Path(__file__).parents[2] / "data" / "rocketmq-5.3.3"
AWAY: Final = "redis://127.0.0.1:1/0"
"""Nobody listens on this port."""

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as found:
        yield found


@pytest.fixture
def store(server: EmbeddedServer, request: pytest.FixtureRequest) -> Iterator[RouteStore]:
    """Return a store on a registry of the test's own."""
    namespace = request.node.name[-60:].strip("_").replace("[", "-").strip("]")
    config = RegistryConfig(namespace=namespace, lease_ttl_s=600.0)  # who is alive stays so on a busy machine
    with RouteStore.from_url(server.url, config) as found:
        yield found


def load(server: EmbeddedServer, store: RouteStore, *words: object) -> Ran:
    return run("load", *words, "--redis", server.url, "--namespace", store.config.namespace)


def table(path: Path, *rows: str) -> Path:
    """Return a CSV file of topics on brokers."""
    path.write_text("\n".join(("broker,topic,read_queue_nums", *rows, "")))
    return path


def forms(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return the words that load a topic from a file of each form."""
    (folder / "t.json").write_text('{"brokerName": "b", "topicName": "json"}\n')
    pq.write_table(pa.table({"broker": ["b"], "topic": ["parquet"]}), folder / "t.parquet")
    shutil.copy(ROCKETMQ / "topics.json", folder)
    shutil.copy(ROCKETMQ / "topicRoute-orders.json", folder)
    return {
        "csv": (table(folder / "t.csv", "b,csv,8"),),
        "json": (folder / "t.json",),
        "parquet": (folder / "t.parquet",),
        "orders-fifo": (folder / "topics.json", "--broker", "b"),
        "orders": (folder / "topicRoute-orders.json", "--form", "topic-route", "--topic", "orders"),
    }


def test_each_form_is_loaded_as_its_dry_run_says(
    server: EmbeddedServer, store: RouteStore, tmp_path: Path
) -> None:
    before = store.changes_since().position
    for topic, words in forms(tmp_path).items():
        dry = load(server, store, *words, "--dry-run", "--cluster", "east")
        assert (dry.status, dry.out[:20]) == (0, "would load 1 brokers"), dry.err
        assert f"added: {'broker-a' if topic == 'orders' else 'b'} {topic}: - -> {{" in dry.err
        assert store.changes_since(before).changes == ()
        done = load(server, store, *words, "--cluster", "east")
        assert (done.status, done.err) == (0, "")
        assert done.out.replace("loaded", "would load") == dry.out
        before = store.changes_since(before, limit=1_000).position
        again = load(server, store, *words)
        assert ("topics: 0 added, 0 changed" in again.out, again.status) == (True, 0)
        assert store.changes_since(before).changes == ()


def test_a_live_broker_is_refused_and_a_dry_run_says_so_and_ends_likewise(
    server: EmbeddedServer, store: RouteStore, tmp_path: Path
) -> None:
    store.register(Broker("live", "10.0.0.1:1"), [TopicConfig("t")])
    path = table(tmp_path / "t.csv", "live,u,8", "dead,u,8")
    dry, real = load(server, store, path, "--dry-run"), load(server, store, path)
    assert dry.out == (
        "would load nothing (1 of 2 brokers refused); what differs: topics: "
        "2 added, 0 changed, 0 removed, 0 as they were\n"
    )
    assert (dry.status, real.status, real.out) == (1, 1, "")
    for ran, what in ((dry, "nothing would be written"), (real, "nothing was written")):
        told = ran.err.splitlines()[-1]
        assert told.startswith(
            f"Error: {what}: of 2 brokers 1 are alive and would be changed: live:0 is held by"
        )
        assert told.endswith("to change them all the same, let the load touch live brokers")
    assert store.topics() == ["t"]
    assert load(server, store, path, "--touch-live", "--dry-run").out.startswith("would load 2 brokers: ")
    done = load(server, store, path, "--touch-live")
    assert (done.status, done.out[:18], store.topics()) == (0, "loaded 2 brokers: ", ["t", "u"])


def test_a_broker_that_is_refused_alone_is_told_with_what_was_loaded(
    server: EmbeddedServer, store: RouteStore, tmp_path: Path
) -> None:
    with redis.Redis.from_url(server.url) as admin:
        admin.lpush(store.keys.broker_topics("foreign"), "something else")
    path = table(tmp_path / "t.csv", "foreign,t,8", "good,t,8")
    for words, loaded, were in (
        (("--dry-run",), "would load", "would not be written, the others would be"),
        ((), "loaded", "were not written in full, the others were"),
    ):
        ran = load(server, store, path, *words)
        assert (ran.status, ran.out[:40]) == (1, f"{loaded} 1 of 2 brokers: topics: 1 added, 0 changed"[:40])
        assert f"Error: of 2 brokers 1 {were}: foreign: " in ran.err.splitlines()[-1]


def test_files_that_cannot_be_read_are_set_aside_unless_the_load_is_strict(
    server: EmbeddedServer, store: RouteStore, tmp_path: Path
) -> None:
    for name in ("broker-a", "broker-b"):
        (tmp_path / name).mkdir()
        shutil.copy(ROCKETMQ / "topics.json", tmp_path / name)
    (tmp_path / "broker-b" / "topics.json").write_text("{")
    words = (tmp_path, "--form", "topics-json")
    strict = load(server, store, *words, "--strict")
    assert (strict.status, strict.out) == (1, "")
    assert "broker-b/topics.json: is no topics.json" in strict.err
    assert store.changes_since().changes == ()
    done = load(server, store, *words)
    assert (done.status, done.out[:18]) == (0, "loaded 1 brokers: ")
    assert done.err.startswith(f"set aside: {tmp_path}/broker-b/topics.json: is no topics.json")


def test_a_load_of_nothing_is_none(server: EmbeddedServer, store: RouteStore, tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("[1,2")
    done = load(server, store, tmp_path / "topics.json")
    assert (done.status, done.err.splitlines()[-1]) == (
        1,
        f"Error: {tmp_path / 'topics.json'} holds no topic that can be loaded",
    )


@pytest.mark.parametrize(
    ("name", "content", "status", "problem"),
    [
        ("none.csv", None, 2, "PATH: there is nothing at "),
        ("t.txt", "", 2, "--form: the name of "),
        (
            "t.csv",
            "broker,topic,color\nb,t,red\n",
            1,
            "column 'color' is none of a topic's configuration: there are ",
        ),
        ("t.csv", "broker,topic\nb,t,8\n", 1, "{path}, line 2: has 3 columns, and the header 2: b,t,8"),
        ("t.csv", "broker,topic,perm\nb,t,77\n", 1, "nothing was written; 1 problem: "),
        ("t.json", '[\n {"broker": "b", "topic": "t"}\n]', 1, "{path} is a JSON array over several lines: "),
        ("t.parquet", "no parquet", 1, "reading {path} failed: file:"),
    ],
)
def test_a_file_that_makes_no_sense_is_told_in_one_line(
    tmp_path: Path, name: str, content: str | None, status: int, problem: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    ran = run("load", tmp_path / name, "--redis", AWAY)
    assert (ran.status, ran.out, ran.err.count("\n")) == (status, "", 1)
    assert ran.err.startswith(f"Error: {problem.format(path=tmp_path / name)}")
    assert ran.err.count("cluster,") <= 1


def test_a_store_that_is_away_or_refuses_is_told_in_one_line(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "b,t,8")
    with EmbeddedServer() as server:
        with redis.Redis.from_url(server.url) as admin:
            admin.config_set("requirepass", "right")
        wrong = server.url.replace("redis://", "redis://:wrong@")
        for url, problem in (
            (AWAY, "the store cannot be reached"),
            (wrong, "the store refuses these credentials"),
            (server.url, "the store refuses these credentials"),
        ):
            ingest = ("ingest", "--once", "--patience", "0", "--out", tmp_path / "history", "--redis", url)
            report = ("report", "--changes", tmp_path, "--out", tmp_path / "report", "--routes", url)
            for words in (("load", path, "--redis", url), ingest, report):
                ran = run(*words)
                assert (ran.status, ran.out) == (1, ""), words
                assert problem.lower() in ran.err.splitlines()[-1].lower()
                assert "wrong@" not in ran.err
            assert ran.err.startswith("Error: --routes: ")


def test_what_an_option_names_is_checked_before_anything_is_worked_out(tmp_path: Path) -> None:
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_text('{"at_ms": "noon", "registry": "r", "broker": "b", "what": "killed"}\n')
    empty.mkdir()
    report = ("report", "--changes", empty, "--out", tmp_path / "report")
    for words, problem in (
        (("ingest", "--once", "--out", file / "history"), "--out: nothing can be written to "),
        (
            ("compact", "--out", empty),
            "--out: {} holds nothing that was ingested: name the folder of an ingest",
        ),
        (report, "--changes: {} holds nothing that was ingested: name the folder of an ingest"),
        ((*report[:2], tmp_path / "none", *report[3:]), "--changes: "),
        ((*report, "--samples", empty), "--samples: "),
        ((*report, "--routes", "http://host"), "--changes: "),
        ((*report, "--until", "-1"), "Invalid value for '--until': '-1' is no time: "),
        ((*report[:3], "--out", file / "report"), "--out: nothing can be written to "),
        (
            ("load", "t.csv", "--master", "local[7]"),
            "--master: Spark runs in this process already, on local[2]",
        ),
    ):
        ran = run(*words)
        assert (ran.status, ran.out) == (2, ""), words
        assert ran.err.splitlines()[-1].startswith(f"Error: {problem.format(empty)}"), ran.err
    assert list(empty.iterdir()) == []
