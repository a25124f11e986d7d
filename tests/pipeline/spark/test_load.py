"""Spark reads and writes the registry's table: round trip, dry run, refusals, and the forms of others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from sharedroutes.pipeline.errors import BadRows, TargetRefused
from sharedroutes.pipeline.load import LOAD_CHANGES, Form, Rules, Source, Target, load, read_configs
from sharedroutes.pipeline.load.forms import canonical_names
from sharedroutes.pipeline.schemas import TOPIC_CONFIGS
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig

ROCKETMQ = Path(__file__).parents[2] / "data" / "rocketmq-5.3.3"
RULES = Rules()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as found:
        yield found


@pytest.fixture
def target(server: EmbeddedServer, request: pytest.FixtureRequest) -> Target:
    """Return a registry of the test's own."""
    return Target(url=server.url, namespace=request.node.name[-60:].strip("_").replace("[", "-").strip("]"))


@pytest.fixture
def store(target: Target) -> Iterator[RouteStore]:
    with RouteStore.from_url(target.url, RegistryConfig(namespace=target.namespace)) as found:
        yield found


def configs(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    filled = [tuple(row.get(name) for name in TOPIC_CONFIGS.names) for row in rows]
    return spark.createDataFrame(filled, TOPIC_CONFIGS.schema)


def entries(spark: SparkSession, target: Target) -> DataFrame:
    options = {"url": target.url, "namespace": target.namespace}
    return spark.read.format("routes").options(**options).load()


ROWS: list[dict[str, Any]] = [
    {
        "broker": f"broker-{number % 3}",
        "topic": f"topic-{number}",
        "read_queue_nums": number,
        "cluster": "east",
    }
    for number in range(30)
] + [
    {
        "broker": "broker-0",
        "topic": "fifo",
        "order": True,
        "perm": 4,
        "topic_sys_flag": 1,
        "topic_filter_type": "MULTI_TAG",
        "attributes": {"message.type": "FIFO"},
    }
]


def test_what_was_loaded_is_what_a_snapshot_holds_and_loads_again_without_change(
    spark: SparkSession, target: Target, store: RouteStore
) -> None:
    spread = configs(spark, *ROWS).repartition(4)  # rows of a broker come from several tasks
    done = load(spark, spread, target)
    assert (done.added, done.changed, done.removed, done.unchanged) == (31, 0, 0, 0)
    snapshot = entries(spark, target).select(*TOPIC_CONFIGS.names)
    found = {(row.broker, row.topic): row.asDict() for row in snapshot.collect()}
    assert len(found) == len(ROWS)
    for row in ROWS:
        defaults = {"write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0, "order": False, "attributes": {}}
        expected = {
            "read_queue_nums": 4,
            "topic_filter_type": "SINGLE_TAG",
            **defaults,
            **row,
            "cluster": "east",
        }
        assert found[row["broker"], row["topic"]] == expected
    before = store.changes_since(limit=1000).position
    again = load(spark, snapshot, target)
    assert (again.added, again.changed, again.removed, again.unchanged) == (0, 0, 0, 31)
    assert store.changes_since(limit=1000).position == before


def test_a_dry_run_tells_every_difference_and_writes_nothing(
    spark: SparkSession, target: Target, store: RouteStore
) -> None:
    load(spark, configs(spark, *ROWS[:6]), target)
    before = store.changes_since().position
    wanted = configs(
        spark,
        {"broker": "broker-0", "topic": "topic-0", "perm": 4},
        {"broker": "broker-0", "topic": "new", "cluster": "west"},
    )
    done = load(spark, wanted, target, replace(RULES, dry_run=True, remove_others=True))
    assert (done.added, done.changed, done.removed, done.unchanged, done.refused) == (1, 1, 1, 0, {})
    assert done.changes is not None
    assert tuple(done.changes.columns) == LOAD_CHANGES.names
    rows = {(row.topic, row.action): (row.before, row.after) for row in done.changes.collect()}
    assert rows.keys() == {
        (None, "cluster"),
        ("topic-0", "changed"),
        ("new", "added"),
        ("topic-3", "removed"),
    }
    assert rows[None, "cluster"] == ("east", "west")
    old, new = map(json.loads, rows["topic-0", "changed"])
    assert (old["readQueueNums"], old["perm"], new["readQueueNums"], new["perm"]) == (0, 6, 4, 4)
    assert store.changes_since().position == before


def test_a_live_broker_stops_the_whole_load_and_is_named(
    spark: SparkSession, target: Target, store: RouteStore
) -> None:
    held = store.register(Broker("broker-1", "10.0.0.1:10911", cluster="east"), [TopicConfig("mine")])
    with pytest.raises(TargetRefused, match=r"nothing was written.*broker-1:0 is held by 10\.0\.0\.1:10911"):
        load(spark, configs(spark, *ROWS), target)
    assert entries(spark, target).count() == 1
    dry = load(spark, configs(spark, *ROWS), target, replace(RULES, dry_run=True))
    assert dry.refused.keys() == {"broker-1"}
    load(spark, configs(spark, *ROWS), target, replace(RULES, touch_live=True))
    assert entries(spark, target).where("broker = 'broker-1'").count() == 11
    assert store.heartbeat(held) == "table"  # its owner is told, and not fenced


def test_rows_that_make_no_sense_are_told_and_nothing_is_written(spark: SparkSession, target: Target) -> None:
    bad = configs(spark, *ROWS, {"broker": "broker-9", "topic": "t", "perm": 77}, {"broker": "broker-9"})
    with pytest.raises(
        BadRows, match=r'nothing was written; 2 problems: .*"topic":"t","perm":77\}: perm: 77 is not within'
    ):
        load(spark, bad.repartition(3), target)
    twice = configs(spark, *ROWS[:1], {**ROWS[0], "perm": 2}).repartition(2)
    with pytest.raises(BadRows, match="topic 'topic-0' of broker 'broker-0' stands with 2 configurations"):
        load(spark, twice, target)
    with pytest.raises(BadRows, match="column 'color' is none"):
        load(spark, bad.selectExpr("*", "'red' as color"), target)
    with pytest.raises(
        BadRows, match=f"column 'color' is none .*: there are {', '.join(TOPIC_CONFIGS.names)}$"
    ):
        canonical_names(["broker", "color"])
    assert entries(spark, target).count() == 0


def test_the_bare_sink_takes_rows_of_a_broker_from_several_tasks(spark: SparkSession, target: Target) -> None:
    def write() -> DataFrameWriter:
        frame = configs(spark, *ROWS).repartition(3)
        options = {"url": target.url, "namespace": target.namespace, "removeOthers": "true"}
        return frame.write.format("routes").mode("append").options(**options)

    with pytest.raises(PySparkException, match="option onLive: 'perhaps' is none of refuse, write"):
        write().option("onLive", "perhaps").save()
    write().save()
    assert entries(spark, target).count() == len(ROWS)


def test_topics_json_of_real_brokers_are_read_and_broken_ones_set_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    for place in ("broker-a/store/config", "broker b+1"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        shutil.copy(ROCKETMQ / "topics.json", folder)
    (tmp_path / "broker-c").mkdir()
    (tmp_path / "broker-c" / "topics.json").write_text('{"topicConfigTable":{"half')
    found = read_configs(spark, Source(path=str(tmp_path), form=Form.TOPICS_JSON, cluster="east"))
    rows = found.rows.collect()
    assert {row.broker for row in rows} == {"broker-a", "broker b+1"}
    assert len(rows) == 40
    (fifo,) = [row for row in rows if row.topic == "orders-fifo" and row.broker == "broker-a"]
    assert (fifo.read_queue_nums, fifo.perm, fifo.attributes) == ("4", "6", {"message.type": "FIFO"})
    assert fifo.cluster == "east"
    (aside,) = found.set_aside.collect()
    assert aside.file == str(tmp_path / "broker-c" / "topics.json")
    assert "no topicConfigTable" in aside.reason
    with pytest.raises(BadRows, match=r"broker-c/topics\.json: is no topics\.json"):
        read_configs(spark, Source(path=str(tmp_path), form=Form.TOPICS_JSON, strict=True))


def test_routes_that_mqadmin_printed_are_read(spark: SparkSession, tmp_path: Path) -> None:
    printed = (ROCKETMQ / "topicRoute-orders.json").read_text()
    (tmp_path / "topicRoute-orders.json").write_text(
        f"RocketMQLog:WARN No appenders\n{printed}\nbye, {{all}}\n"
    )
    one_line = (
        '{"brokerDatas":[],"queueDatas":[{"brokerName":"b","perm":4,"readQueueNums":2,"writeQueueNums":3}]}'
    )
    (tmp_path / "all.txt").write_text(f"payments\n{printed}\naudit\n{one_line}\n")
    (tmp_path / "none.txt").write_text("CODE: 17  DESC: No topic route info\n")
    found = read_configs(spark, Source(path=str(tmp_path), form=Form.TOPIC_ROUTE))
    rows = {(row.topic, row.broker): row for row in found.rows.collect()}
    assert rows.keys() == {("orders", "broker-a"), ("payments", "broker-a"), ("audit", "b")}
    orders = rows["orders", "broker-a"]
    assert (orders.cluster, orders.read_queue_nums, orders.perm) == ("DefaultCluster", "8", "6")
    assert rows["audit", "b"].cluster is None
    assert [Path(row.file).name for row in found.set_aside.collect()] == ["none.txt"]


def test_tables_in_files_are_read_in_either_spelling_and_loaded(
    spark: SparkSession, target: Target, tmp_path: Path
) -> None:
    attributes = '{""a"":""b""}'
    (tmp_path / "t.csv").write_text(
        f'brokerName,topicName,readQueueNums,order,attributes\nb,t,8,true,"{attributes}"\n'
    )
    (tmp_path / "t.json").write_text('{"broker": "b", "topic": "u", "perm": 4, "attributes": {"a": "b"}}\n')
    for name in ("t.csv", "t.json"):
        load(spark, read_configs(spark, Source(path=str(tmp_path / name))).rows, target)
    entries(spark, target).write.parquet(str(tmp_path / "snapshot.parquet"))
    again = load(spark, read_configs(spark, Source(path=str(tmp_path / "snapshot.parquet"))).rows, target)
    assert (again.added, again.changed, again.unchanged) == (0, 0, 2)
    rows = {row.topic: row for row in entries(spark, target).collect()}
    assert (rows["t"].read_queue_nums, rows["t"].order, rows["t"].attributes) == (8, True, {"a": "b"})
    assert (rows["u"].perm, rows["u"].attributes) == (4, {"a": "b"})
    (tmp_path / "bad.csv").write_text("broker,topic,perm\nb,t,many\n")
    with pytest.raises(BadRows, match=r"perm: 'many' is no whole number"):
        load(spark, read_configs(spark, Source(path=str(tmp_path / "bad.csv"))).rows, target)
