"""The reader of the table, without Spark: what it gives of a real registry, and of a broken one."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.pipeline.errors import BadOption, PipelineError
from sharedroutes.pipeline.schemas import REPLICAS, ROUTES
from sharedroutes.pipeline.sources.routes import RoutesSource
from sharedroutes.pipeline.sources.routes_reader import Part, share_out
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from sharedroutes.registry.acl import Role, acl_rules

Row = dict[str, Any]


def read(url: str, **options: str) -> list[Row]:
    source = RoutesSource(options={"url": url, **options})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.fixture
def store(redis_url: str) -> RouteStore:
    return RouteStore.from_url(redis_url)


@pytest.fixture
def filled(store: RouteStore) -> RouteStore:
    """Return a registry with a live master and slave of broker-a, and a broker-b that has gone."""
    more = TopicConfig("fifo", 2, 3, 4, 1, order=True, attributes={"message.type": "FIFO"})
    store.register(Broker("broker-a", "10.0.0.1:1", cluster="east", zone_name="z1"), [TopicConfig("t"), more])
    slave = Broker("broker-a", "10.0.0.2:1", 1, cluster="east", enable_acting_master=True)
    store.register(slave, [])
    store.unregister(store.register(Broker("broker-b", "10.0.0.3:1"), [TopicConfig("t", perm=2)]))
    store.admin.wipe_write_perm("broker-b")
    return store


def test_an_entry_has_its_configuration_and_what_its_broker_is(filled: RouteStore, redis_url: str) -> None:
    rows = {(row["broker"], row["topic"]): row for row in read(redis_url)}
    assert rows.keys() == {("broker-a", "t"), ("broker-a", "fifo"), ("broker-b", "t")}
    fifo, gone = rows["broker-a", "fifo"], rows["broker-b", "t"]
    assert tuple(fifo) == ROUTES.names
    numbers = [fifo[name] for name in ("read_queue_nums", "write_queue_nums", "perm", "topic_sys_flag")]
    assert (numbers, fifo["order"], fifo["attributes"]) == ([2, 3, 4, 1], True, [("message.type", "FIFO")])
    assert (fifo["registry"], fifo["cluster"], fifo["wiped"]) == ("sharedroutes", "east", False)
    assert (fifo["live_ids"], fifo["master_address"]) == ([0, 1], "10.0.0.1:1")
    assert (gone["live_ids"], gone["master_address"], gone["wiped"], gone["perm"]) == ([], None, True, 2)
    assert {row["problem"] for row in rows.values()} == {None}


def test_replicas_are_told_with_what_is_left_of_their_lease(filled: RouteStore, redis_url: str) -> None:
    rows = {(row["broker"], row["broker_id"]): row for row in read(redis_url, table="replicas")}
    master, slave, gone = (rows[of] for of in (("broker-a", 0), ("broker-a", 1), ("broker-b", 0)))
    assert tuple(master) == REPLICAS.names
    assert (master["alive"], master["address"], master["zone"], master["topics"]) == (
        True,
        "10.0.0.1:1",
        "z1",
        2,
    )
    assert 0 < master["lease_left_ms"] <= 15_000
    assert (slave["alive"], slave["address"]) == (True, "10.0.0.2:1")
    assert (gone["alive"], gone["lease_left_ms"], gone["wiped"], gone["topics"]) == (False, None, True, 1)
    assert (gone["address"], gone["epoch"] > 0) == (None, True)
    assert {row["problem"] for row in rows.values()} == {None}


def test_what_cannot_be_read_is_told_and_the_rest_is_served(
    filled: RouteStore, redis_url: str, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    keys = filled.keys
    admin.hset(keys.broker_topics("broker-a"), "odd", "no numbers")
    admin.hset(keys.broker_topics("broker-a"), b"\xff", "4 4 6 0")
    admin.hset(keys.broker_topics("broker-a"), "a b", "4 4 6 0")
    admin.hset(keys.brokers, "x:y", "east")
    filled.unregister(filled.register(Broker("broker-c", "10.0.0.4:1"), []))
    foreign_keys += [keys.broker_topics("broker-c")]
    admin.delete(keys.broker_topics("broker-c"))
    admin.set(keys.broker_topics("broker-c"), "foreign")
    rows = read(redis_url)
    assert sum(row["problem"] is None for row in rows) == 3
    problems = {(row["broker"], row["topic"]): row["problem"] for row in rows if row["problem"]}
    assert "has the configuration b'no numbers'" in problems["broker-a", "odd"]
    assert "is no UTF-8" in problems["broker-a", "\\xff"]
    assert "must not be empty nor hold white space" in problems["broker-a", "a b"]
    assert "holds another type" in problems["broker-c", None]
    assert "lists 'x:y'" in problems[None, None]
    with pytest.raises(PipelineError, match="with onProblem=mark it is a row"):
        read(redis_url, onProblem="fail")


def test_a_foreign_index_of_brokers_is_one_row(
    redis_url: str, store: RouteStore, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    foreign_keys += [store.keys.brokers]
    admin.set(store.keys.brokers, "foreign")
    for table in ("entries", "replicas"):
        (row,) = read(redis_url, table=table)
        assert f"{store.keys.brokers}: holds another type" in row["problem"]


def test_a_member_or_a_lease_that_makes_no_sense_is_told(
    filled: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    admin.hset(filled.keys.broker("broker-a"), "member:1", "?")
    admin.set(filled.keys.lease("broker-a", 0), "?", px=60_000)
    rows = {(row["broker"], row["broker_id"]): row for row in read(redis_url, table="replicas")}
    assert "member 1 is b'?'" in rows["broker-a", 1]["problem"]
    assert rows["broker-a", 1]["address"] == "10.0.0.2:1"
    assert "the lease of broker-a:0 is b'?'" in rows["broker-a", 0]["problem"]
    assert rows["broker-a", 0]["alive"] is False


def test_a_large_table_is_read_page_by_page_and_each_topic_comes_once(
    redis_url: str, store: RouteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharedroutes.pipeline.sources.routes_reader._AT_ONCE", 500)
    monkeypatch.setattr("sharedroutes.pipeline.sources.routes_reader._PAGE", 100)
    names = [f"topic-{number}" for number in range(3_000)]
    store.register(Broker("large", "10.0.0.1:1"), [TopicConfig(name) for name in names])
    store.register(Broker("small", "10.0.0.2:1"), [TopicConfig("one")])
    rows = read(redis_url, partitions="2")
    assert sorted(row["topic"] for row in rows if row["broker"] == "large") == sorted(names)
    assert [row["topic"] for row in rows if row["broker"] == "small"] == ["one"]
    assert [row["broker"] for row in read(redis_url, brokers="small, none")] == ["small"]


def test_a_reader_may_read_all_of_it(filled: RouteStore, redis_url: str, admin: redis.Redis) -> None:
    rules = acl_rules("sharedroutes", Role.READER, user="spark", password=">secret")  # noqa: S106
    try:
        admin.execute_command(*rules.split())
    except redis.ResponseError as error:
        pytest.skip(f"this server has no such rules: {error}")
    url = redis_url.replace("://", "://spark:secret@")
    assert len(read(url)) == 3
    assert len(read(url, table="replicas")) == 3
    admin.execute_command("ACL", "DELUSER", "spark")


def test_several_registries_are_one_table(redis_url: str, store: RouteStore) -> None:
    store.register(Broker("b", "10.0.0.1:1"), [TopicConfig("t")])
    text = f'[{{"name": "one", "url": "{redis_url}"}}, {{"url": "{redis_url}", "namespace": "empty"}}]'
    source = RoutesSource(options={"registries": text})
    parts = source.reader(source.schema()).partitions()
    assert [(part.registry.name, part.brokers) for part in parts if isinstance(part, Part)] == [
        ("one", (("b", 1),)),
        ("empty", ()),
    ]


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadOption, match="option table: 'topics' is none of entries, replicas"):
        RoutesSource(options={"table": "topics"}).schema()
    with pytest.raises(BadOption, match="there is no option 'dryrun'"):
        RoutesSource(options={"dryRun": "true"}).schema()


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 10**6), max_size=40), st.integers(1, 12))
def test_shares_hold_each_broker_once_and_are_even(sizes: dict[str, int], parts: int) -> None:
    shares = share_out(sizes.items(), parts)
    assert sorted(item for share in shares for item in share) == sorted(sizes.items())
    assert 1 <= len(shares) <= parts
    weights = [sum(size + 1 for _, size in share) for share in shares]
    if sizes and len(shares) == parts:
        assert max(weights) - min(weights) <= max(sizes.values()) + 1
