"""A load makes tables what the rows say: only what differs is written, and no live owner is fenced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

from sharedroutes.pipeline.errors import BadOption, BadRows, TargetRefused
from sharedroutes.pipeline.sources.routes import RoutesSource
from sharedroutes.pipeline.sources.routes_checks import CHECKED
from sharedroutes.pipeline.sources.routes_load import (
    BrokerLoad,
    Loading,
    Pace,
    Rules,
    refusal,
    tables_of,
)
from sharedroutes.registry import (
    Broker,
    LeaseStatus,
    QueueMapping,
    RouteStore,
    TopicConfig,
)
from sharedroutes.registry.plans.bulk_load import Wanted, difference_of

PLAIN = b"4 4 6 0"
SCHEMA = StructType([StructField(name, StringType()) for name in ("broker", "topic", "cluster", "perm")])


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    with RouteStore.from_url(redis_url) as found:
        yield found


def part(*rows: tuple[str, str] | tuple[str, str, bytes] | tuple[str, str, bytes, str]) -> pa.Table:
    filled = [(*row, PLAIN, "")[:3] + ((row[3],) if len(row) > 3 else ("",)) for row in rows]
    found = [
        {"broker": broker, "topic": topic, "config": config, "cluster": cluster}
        for broker, topic, config, cluster in filled
    ]
    return pa.Table.from_pylist(found, schema=CHECKED)


def load(store: RouteStore, *parts: pa.Table, **rules: Any) -> dict[str, BrokerLoad]:
    chosen = Rules(**rules)
    return {
        done.broker: done for done in Loading(store, chosen).run(tables_of(pa.concat_tables(parts), chosen))
    }


def counts(done: BrokerLoad) -> tuple[int, int, int, int]:
    return done.added, done.changed, done.removed, done.unchanged


def position(store: RouteStore) -> str:
    return store.changes_since(limit=10_000).position


def table(store: RouteStore, admin: redis.Redis, broker: str) -> dict[bytes, bytes]:
    found: Any = admin.hgetall(store.keys.broker_topics(broker))
    return dict(found)


def test_a_broker_nobody_knew_is_loaded_and_its_agent_finds_its_table(
    store: RouteStore, admin: redis.Redis
) -> None:
    done = load(store, part(("a", "t"), ("b", "t")), part(("a", "u", b"8 8 6 0", "east")))
    assert {name: counts(of) for name, of in done.items()} == {"a": (2, 0, 0, 0), "b": (1, 0, 0, 0)}
    assert admin.hget(store.keys.broker("a"), "cluster") == b"east"
    assert admin.hgetall(store.keys.brokers) == {b"a": b"east", b"b": b"DefaultCluster"}
    assert store.topics() == []  # nobody sees a broker that is not there
    before = position(store)
    store.register(
        Broker("a", "10.0.0.1:1", cluster="east"), [TopicConfig("t", 4, 4), TopicConfig("u", 8, 8)]
    )
    after = store.changes_since(before)
    assert [change.kind for change in after.changes] == ["up"]  # the table was the broker's already
    assert list(store.admin.verify()) == []


def test_the_second_time_nothing_is_written(store: RouteStore) -> None:
    rows = part(("a", "t"), ("a", "u", b"8 8 6 0", "east"), ("b", "t"))
    load(store, rows)
    before = position(store)
    assert {counts(done) for done in load(store, rows).values()} == {(0, 0, 0, 2), (0, 0, 0, 1)}
    assert position(store) == before


def test_others_are_removed_only_when_told(store: RouteStore, admin: redis.Redis) -> None:
    load(store, part(("a", "t"), ("a", "u")))
    assert counts(load(store, part(("a", "v")))["a"]) == (1, 0, 0, 0)
    assert counts(load(store, part(("a", "v", b"1 1 4 0")), remove_others=True)["a"]) == (0, 1, 2, 0)
    assert table(store, admin, "a") == {b"v": b"1 1 4 0"}
    assert list(store.admin.verify()) == []


def test_the_queue_mapping_of_a_static_topic_stays(store: RouteStore, admin: redis.Redis) -> None:
    static = TopicConfig("s", 4, 4, queue_mapping=QueueMapping(6, 1, {0: 0, 3: 1}))
    store.unregister(store.register(Broker("a", "10.0.0.1:1"), [static]))
    before = table(store, admin, "a")[b"s"]
    assert counts(load(store, part(("a", "s")))["a"]) == (0, 0, 0, 1)
    assert counts(load(store, part(("a", "s", b"2 2 6 0")))["a"]) == (0, 1, 0, 0)
    assert table(store, admin, "a")[b"s"] == before.replace(b"4 4 6 0", b"2 2 6 0")
    assert list(store.admin.verify()) == []


def test_a_row_that_is_missing_in_the_route_index_is_written_again(
    store: RouteStore, admin: redis.Redis
) -> None:
    load(store, part(("a", "t"), ("a", "u")))
    admin.delete(store.keys.topic("t"))
    assert counts(load(store, part(("a", "t"), ("a", "u")))["a"]) == (0, 1, 0, 1)
    assert list(store.admin.verify()) == []


def test_a_dry_run_writes_nothing(store: RouteStore, admin: redis.Redis) -> None:
    load(store, part(("a", "t"), ("a", "u")))
    before = position(store), admin.dbsize()
    done = load(store, part(("a", "t", b"8 8 6 0"), ("b", "t")), dry_run=True, remove_others=True)
    assert (counts(done["a"]), counts(done["b"])) == ((0, 1, 1, 0), (1, 0, 0, 0))
    changes = {(change.broker, change.topic, change.action) for of in done.values() for change in of.changes}
    assert changes == {
        ("a", "t", "changed"),
        ("a", "u", "removed"),
        ("b", None, "cluster"),
        ("b", "t", "added"),
    }
    assert (position(store), admin.dbsize()) == before


def test_a_live_broker_is_refused_before_anything_is_written(store: RouteStore, admin: redis.Redis) -> None:
    store.register(Broker("live", "10.0.0.1:1"), [TopicConfig("t", 4, 4)])
    before = position(store)
    with pytest.raises(TargetRefused, match=r"nothing was written: of 2 brokers 1 are alive.*live:0 is held"):
        load(store, part(("dead", "t"), ("live", "u")))
    assert position(store) == before
    assert counts(load(store, part(("dead", "t"), ("live", "t")))["live"]) == (0, 0, 0, 1)  # as it is already


def test_a_live_slave_is_a_live_broker(store: RouteStore) -> None:
    store.register(Broker("a", "10.0.0.2:1", 1, enable_acting_master=True), [TopicConfig("t")])
    with pytest.raises(TargetRefused, match="a:1 is held by"):
        load(store, part(("a", "u")))
    assert counts(load(store, part(("a", "u")), touch_live=True)["a"]) == (1, 0, 0, 0)


def test_a_live_broker_is_written_in_its_owners_name_when_told(store: RouteStore) -> None:
    broker = Broker("live", "10.0.0.1:1")
    held = store.register(broker, [TopicConfig("t")])
    assert counts(load(store, part(("live", "u")), touch_live=True)["live"]) == (1, 0, 0, 0)
    assert store.topics() == ["t", "u"]
    assert store.heartbeat(held) is LeaseStatus.TABLE_LOST  # not fenced: it looks, and says what is so
    store.register(broker, held.topics, held=held)
    assert store.topics() == ["t"]
    assert list(store.admin.verify()) == []


def test_a_load_does_not_move_a_live_broker_to_another_cluster(store: RouteStore) -> None:
    store.register(Broker("live", "10.0.0.1:1", cluster="east"), [TopicConfig("t")])
    with pytest.raises(TargetRefused, match="it says that its cluster is 'east'"):
        load(store, part(("live", "u", PLAIN, "west")), touch_live=True)


def test_a_broker_of_the_dead_moves_to_the_cluster_of_the_rows(store: RouteStore, admin: redis.Redis) -> None:
    load(store, part(("a", "t", PLAIN, "east")))
    assert load(store, part(("a", "t")))["a"].refused == ""
    assert admin.hget(store.keys.brokers, "a") == b"east"
    load(store, part(("a", "t", PLAIN, "west")))
    assert (admin.hget(store.keys.brokers, "a"), admin.hget(store.keys.broker("a"), "cluster")) == (
        b"west",
    ) * 2


def test_an_owner_of_before_is_fenced_by_a_load(store: RouteStore) -> None:
    held = store.register(Broker("a", "10.0.0.1:1"), [TopicConfig("t")])
    store.unregister(held)
    load(store, part(("a", "u")))
    assert store.heartbeat(held) is LeaseStatus.FENCED


def test_a_topic_with_a_foreign_index_is_told_and_the_others_are_written(
    store: RouteStore, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    foreign_keys += [store.keys.topic("t")]
    admin.lpush(store.keys.topic("t"), "foreign")
    done = list(load(store, part(("a", "t"), ("a", "u"))).values())
    assert table(store, admin, "a") == {b"u": PLAIN}
    assert refusal(done, len(done), is_dry_run=True) is not None
    error = refusal(done, len(done), is_dry_run=False)
    assert error is not None
    assert f"{store.keys.topic('t')}: holds another type" in str(error)


def test_rows_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(BadRows, match="topic 't' of broker 'a' stands with 2 configurations"):
        tables_of(part(("a", "t"), ("a", "t", b"8 8 6 0")), Rules())
    with pytest.raises(BadRows, match="broker 'a' stands with the clusters 'east', 'west'"):
        tables_of(part(("a", "t", PLAIN, "west"), ("a", "u", PLAIN, "east")), Rules())
    same = tables_of(part(("a", "t"), ("a", "t")), Rules())
    assert same["a"]().topics == {"t": PLAIN}
    assert tables_of(CHECKED.empty_table(), Rules()) == {}


def test_entries_are_let_through_at_the_pace_that_was_asked_for(store: RouteStore) -> None:
    now, slept = 0.0, []

    def sleep(wait_s: float) -> None:
        nonlocal now
        slept.append(wait_s)
        now += wait_s

    pace = Pace(100, lambda: now, sleep)
    for _ in range(10):
        pace.wrote(20)
    assert sum(slept) == pytest.approx(2.0)
    Pace(0, lambda: now, sleep).wrote(10**9)
    assert len(slept) == 10
    done = load(store, part(*(("a", f"t{number}") for number in range(30))), max_entries_per_second=100_000)
    assert counts(done["a"]) == (30, 0, 0, 0)
    with pytest.raises(BadOption, match="load: max_entries_per_second: -1"):
        Rules(max_entries_per_second=-1)


def test_the_sink_writes_nothing_before_all_tasks_have_checked_their_rows(
    store: RouteStore, redis_url: str, tmp_path: Path
) -> None:
    options = {"url": redis_url, "report": str(tmp_path), "removeOthers": "true"}
    writer = RoutesSource(options=options).writer(SCHEMA, overwrite=False)
    rows = [{"broker": "a", "topic": f"t{number}"} for number in range(4)]
    good: list[WriterCommitMessage | None] = [writer.write(iter([_batch(row)])) for row in rows]
    bad = writer.write(iter([_batch({"broker": "a", "topic": "x y"})]))
    assert store.changes_since().changes == ()
    with pytest.raises(BadRows, match="nothing was written; 1 problem: row"):
        writer.commit([*good, bad])
    assert json.loads((tmp_path / "summary.json").read_bytes())["error"]["kind"] == "BadRows"
    writer.abort(good)
    assert store.changes_since().changes == ()
    writer.commit(good)
    told = json.loads((tmp_path / "summary.json").read_bytes())
    assert (told["error"], told["brokers"][0]["broker"], told["brokers"][0]["added"]) == (None, "a", 4)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_only_a_dry_run_of_the_sink_leaves_what_would_change(
    store: RouteStore, redis_url: str, tmp_path: Path
) -> None:
    for dry_run, left in (("true", {"summary.json", "changes.jsonl"}), ("false", {"summary.json"})):
        options = {"url": redis_url, "report": str(tmp_path), "dryRun": dry_run}
        writer = RoutesSource(options=options).writer(SCHEMA, overwrite=False)
        writer.commit([writer.write(iter([_batch({"broker": "a", "topic": "t"})]))])
        assert {path.name for path in tmp_path.iterdir()} == left
        if dry_run == "true":
            lines = (tmp_path / "changes.jsonl").read_text().splitlines()
            assert [json.loads(line)["action"] for line in lines] == ["cluster", "added"]


def test_options_of_the_sink_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    def writer(overwrite: bool = False, **options: str) -> None:  # noqa: FBT001, FBT002
        RoutesSource(options=options).writer(SCHEMA, overwrite=overwrite)

    with pytest.raises(BadOption, match="there is no mode overwrite"):
        writer(overwrite=True)
    with pytest.raises(BadOption, match=r"option report: '.*none' is no folder"):
        writer(report=str(tmp_path / "none"))
    with pytest.raises(BadOption, match="cluster: 'a b' must not be empty"):
        writer(cluster="a b")
    with pytest.raises(BadOption, match="option maxEntriesPerSecond: -1 is not within"):
        writer(maxEntriesPerSecond="-1")
    with pytest.raises(BadOption, match="there is no option 'table'"):
        writer(table="entries")


def _batch(row: dict[str, str]) -> pa.RecordBatch:
    schema = pa.schema([(name, pa.string()) for name in SCHEMA.names])
    return pa.RecordBatch.from_pylist([row], schema=schema)


NAMES = st.sampled_from("abcdef")
CONFIGS = st.sampled_from([b"4 4 6 0", b"8 8 6 0", b'4 4 6 0 {"order":true}'])
STORED = st.dictionaries(NAMES, st.tuples(CONFIGS, st.sampled_from([b"", b"\t{}"])).map(b"".join))


@given(STORED, st.sets(NAMES), st.dictionaries(NAMES, CONFIGS), st.booleans(), st.integers(1, 4))
def test_a_difference_makes_the_stored_table_the_wanted_one(
    stored: dict[str, bytes],
    served: set[str],
    topics: dict[str, bytes],
    only_these: bool,  # noqa: FBT001
    size: int,
) -> None:
    found = difference_of(stored, served, Wanted("b", topics, only_these=only_these))
    after = {name: config for name, config in stored.items() if name not in found.removed}
    named = []
    for chunk in found.chunks(size):
        assert 0 < len(chunk) <= size
        after |= {**chunk.added, **chunk.changed}
        named += [*chunk.added, *chunk.changed, *chunk.removed]
    assert sorted(named) == sorted({*named})
    assert len(named) == len(found)
    assert {name: config.partition(b"\t")[0] for name, config in after.items() if name in topics} == topics
    assert all(
        after[name].partition(b"\t")[1:] == stored[name].partition(b"\t")[1:]
        for name in after.keys() & stored
    )
    assert after.keys() == ({*topics} if only_these else {*topics, *stored})
    again = difference_of(after, set(after), Wanted("b", topics, only_these=only_these))
    assert len(again) == 0
