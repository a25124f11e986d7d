"""A client's copy of the table: its index from brokers to topics says what a look at all rows would say."""

from __future__ import annotations

from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sharedroutes.client.routes import Rows, TableCopy
from sharedroutes.registry import Group, QueueData
from tests.support import examples

TOPICS: Final = tuple(f"t{number}" for number in range(4))
BROKERS: Final = ("a", "b", "c")


class Copying(RuleBasedStateMachine):
    """Rows of topics come, change and go."""

    topics = st.sampled_from(TOPICS)
    rows = st.sets(st.sampled_from(BROKERS)).map(
        lambda names: tuple(QueueData(name, 4, 4, 6) for name in sorted(names))
    )

    def __init__(self) -> None:
        super().__init__()
        self.table = TableCopy()
        self.table.groups = {name: Group("cluster", name, (0,)) for name in BROKERS}

    @rule(topic=topics, rows=rows)
    def a_topic_has_rows(self, topic: str, rows: Rows) -> None:
        self.table.put(topic, rows)

    @rule(topic=topics)
    def a_topic_is_missing(self, topic: str) -> None:
        assert self.table.put_missing(topic) == []

    @rule(topic=topics)
    def a_topic_is_forgotten(self, topic: str) -> None:
        self.table.forget(topic)

    @rule(rows=st.dictionaries(topics, rows))
    def a_snapshot_is_read(self, rows: dict[str, Rows]) -> None:
        self.table.restore(rows, {})

    @invariant()
    def the_index_is_right(self) -> None:
        named = {topic: {row.broker_name for row in rows} for topic, rows in self.table.rows.items()}
        for name in BROKERS:
            assert self.table.topics_of([name]) == {topic for topic in named if name in named[topic]}
        assert self.table.topics_of(BROKERS) == {topic for topic in named if named[topic]}
        assert self.table.unused_groups() == {*BROKERS} - {name for names in named.values() for name in names}

    @invariant()
    def no_topic_is_known_and_missing(self) -> None:
        assert self.table.rows.keys().isdisjoint(self.table.missing)


TestCopying = Copying.TestCase
TestCopying.settings = settings(max_examples=examples(100), stateful_step_count=30)
