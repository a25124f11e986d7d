"""A broker that is told to live has all its topics, and nobody else takes one away."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import STORE, Change, Fault, Record
from tests.faults.checker.story import BROKERS, TOPIC, Story, reasons

BROKER = BROKERS[0]


def begun() -> Story:
    """Return a story in which all is well so far."""
    story = Story()
    story.begin()
    return story


def change(story: Story, kind: ChangeKind, **more: tuple[str, ...] | str) -> None:
    """Let the owner of the broker, or an operator, write something."""
    epoch = 0 if kind == ChangeKind.DELETED else story.epoch(BROKER)
    story.change(replace(Record(kind=kind, broker=BROKER, epoch=epoch), **more))


def lose(story: Story, phase: str, name: str = "flushall") -> None:
    """Let a fault of the store begin or end, in which it loses something."""
    fault = Fault(who="scheduler", name=name, target="redis", phase="begin", disturbs=(STORE,), loses=True)
    story.tell(replace(fault, phase=phase))


def after(story: Story, text: str) -> list[str]:
    """Return what is wrong about tables, a while later."""
    story.calm()
    return reasons(story.events, "f", text)


@pytest.mark.parametrize(("topic", "wrong"), [(TOPIC, 1), ("extra", 0)])
def test_a_topic_that_its_broker_has_stays_in_its_table(topic: str, wrong: int) -> None:
    story = begun()
    change(story, ChangeKind.TOPICS, removed=(topic,))
    assert len(after(story, "taken out")) == wrong


def test_what_is_read_again_of_a_stream_that_lags_is_judged_by_when_it_was_told() -> None:
    story = begun()
    change(story, ChangeKind.TOPICS, removed=(TOPIC,))
    (told,) = (of for of in story.events if isinstance(of, Change) and of.record and of.record.removed)
    story.calm()
    assert len(reasons([*story.events, replace(told, at_us=1_000 * story.now_ms)], "f", "taken out")) == 1


@pytest.mark.parametrize(("topic", "wrong"), [(TOPIC, 1), ("extra", 0)])
def test_who_is_told_to_live_has_its_topics(topic: str, wrong: int) -> None:
    story = begun()
    story.own(BROKER)
    change(story, ChangeKind.TOPICS, added=(topic,))
    assert len(after(story, "told to live")) == wrong


def test_topics_that_come_first_are_there_in_time() -> None:
    story = begun()
    story.own(BROKER, topics=(TOPIC,))
    assert after(story, "told to live") == []


def test_what_an_operator_deletes_comes_back_later() -> None:
    story = begun()
    story.own(BROKER)
    change(story, ChangeKind.DELETED, removed=(TOPIC,), brokers=(BROKER,), by="operator")
    change(story, ChangeKind.TOPICS, added=(TOPIC,))
    assert after(story, "told to live") == []


@pytest.mark.parametrize(("topic", "wrong"), [(TOPIC, 0), ("extra", 1)])
def test_what_no_broker_is_to_have_stays_deleted(topic: str, wrong: int) -> None:
    story = begun()
    change(story, ChangeKind.DELETED, removed=(topic,), brokers=(BROKER,), by="operator")
    change(story, ChangeKind.TOPICS, added=(topic,))
    assert len(after(story, "deleted for good")) == wrong


@pytest.mark.parametrize("name", ["flushall", "delete-listing", "lost-listing", "corrupt-listing"])
@pytest.mark.parametrize("lost_first", [True, False])
def test_what_the_store_loses_later_is_written_again(name: str, *, lost_first: bool) -> None:
    story = begun()
    if lost_first:
        lose(story, "begin", name)
        story.own(BROKER)
    else:
        story.own(BROKER)
        lose(story, "begin", name)
    change(story, ChangeKind.TOPICS, added=(TOPIC,))
    lose(story, "end", name)
    is_wrong = lost_first and name == "flushall"  # who comes back to an empty store brings all that it had
    assert len(after(story, "told to live")) == is_wrong


def test_who_was_out_when_the_store_lost_its_table_may_say_later_what_it_has() -> None:
    story = begun()
    change(story, ChangeKind.DOWN, reason="does not answer")
    lose(story, "begin")
    lose(story, "end")
    story.own(BROKER)
    change(story, ChangeKind.TOPICS, added=(TOPIC,))
    assert after(story, "told to live") == []
