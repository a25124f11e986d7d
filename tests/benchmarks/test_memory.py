"""What the memory benchmark says of a kind of key is what the server says of its keys."""

from __future__ import annotations

import pytest
import redis

from benchmarks import memory
from benchmarks.kit.workload import Table, fill, long_topic_names, spread
from sharedroutes.registry import EmbeddedServer, RouteStore

TOPICS = 3_000
BROKERS = 6


def usage(admin: redis.Redis, pattern: str) -> int:
    """Return the bytes of the keys that match, every element counted."""
    return sum(int(admin.memory_usage(key, samples=0) or 0) for key in admin.scan_iter(match=pattern))


@pytest.fixture
def of_brokers() -> list[Table]:
    return spread(long_topic_names(TOPICS), 2, BROKERS)


def test_each_part_is_what_the_server_counts_for_its_keys(
    own_server: EmbeddedServer, of_brokers: list[Table]
) -> None:
    with redis.Redis.from_url(own_server.url) as admin:
        parts = memory.parts_of(own_server.url, admin, of_brokers)
        assert admin.dbsize() == 0
        with RouteStore.from_url(own_server.url) as store:
            fill(store, of_brokers)
        kinds = ("*:topic:*", "*:broker:*:topics", "{sharedroutes}:topics", "{sharedroutes}:changes")
        index, tables, topics, changes = (usage(admin, pattern) for pattern in kinds)
    # The server does not count what its allocator rounds up, nor the slots of its table of keys.
    assert parts["route index"] == pytest.approx(index + TOPICS * 8 + 4_096 * 8, rel=0.15)
    assert parts["broker tables"] == pytest.approx(tables, rel=0.15)
    assert parts["index of topics"] == pytest.approx(topics, rel=0.15)
    assert parts["change stream"] == pytest.approx(changes, rel=0.15)


def test_all_topics_of_the_benchmark_are_on_as_many_brokers(of_brokers: list[Table]) -> None:
    assert {len(table) for table in of_brokers} == {TOPICS * 2 // BROKERS}
    assert sum(map(len, of_brokers)) == TOPICS * 2
    assert len(set().union(*of_brokers)) == TOPICS


def test_memory_that_others_may_still_change_is_not_reported(own_server: EmbeddedServer) -> None:
    with redis.Redis.from_url(own_server.url) as admin, redis.Redis.from_url(own_server.url) as other:
        other.ping()
        with pytest.raises(RuntimeError, match="come to rest"):
            memory.settled_memory(admin, within_s=0.6)
        other.close()
        assert memory.settled_memory(admin) > 0
