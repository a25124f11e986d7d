"""What is told of the past is what was: random registries, whose streams were trimmed anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from sharedroutes.registry import Change, ChangeKind
from sharedroutes.registry.history import Before, BrokerHistory, Difference, Row, TableAt, TopicHistory
from sharedroutes.registry.model import FORGOTTEN
from sharedroutes.registry.past import BrokerNow, BrokerState, ms_of, pasts, told
from tests.registry.worlds import BEGIN_MS, TOPICS, Story, World

SEEDS = range(40)

story_of = cache(Story)


def last_at(changes: Sequence[Change], at_ms: int) -> int:
    """Return how many of the changes were told until then."""
    return sum(ms_of(change) <= at_ms for change in changes)


def first_about_permission(changes: Sequence[Change], name: str) -> str:
    """Return the first change that gives or takes the write permission of a broker: its reason, or kind."""
    kinds = (ChangeKind.WIPED, ChangeKind.LIFTED)
    about = (one for one in changes if one.kind in kinds or one.reason == FORGOTTEN)
    return next((one.reason or one.kind for one in about if one.broker_name == name), "")


def named(question: object, row: Row) -> dict[str, object]:
    columns = question.columns  # type: ignore[attr-defined]
    return dict(zip((column.name for column in columns), row, strict=True))


def serving(world: World, topic: str) -> set[str]:
    return {name for name, broker in world.items() if topic in broker.topics and broker.serves}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_moment_is_told_as_it_was_however_much_was_trimmed(seed: int) -> None:
    story = story_of(seed)
    for cut in range(0, len(story.changes), 7):
        left = story.changes[cut:]
        for change in left[::5]:
            at_ms = ms_of(change)
            truth = story.worlds[last_at(story.changes, at_ms)]
            for name, broker in pasts(left, story.now(), at_ms).items():
                assert broker.topics == truth[name].topics
                if broker.state is BrokerState.UNKNOWN:
                    assert cut > 0 or not truth[name].serves
                    continue
                if truth[name].wiped and first_about_permission(left, name) == FORGOTTEN:
                    continue  # forgetting a broker gives its permission back, and says nothing of it
                assert broker.is_writable == truth[name].serves
                for shown in broker.replicas:
                    broker_id, _, address = shown.partition(" ")
                    assert truth[name].replicas[int(broker_id)] == address or address == "unknown"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_unknown_of_what_changes_have_told(seed: int) -> None:
    story = story_of(seed)
    at_ms = ms_of(story.changes[-1])
    for name, broker in pasts(story.changes, None, at_ms).items():
        assert (broker.topics, broker.replicas) == (
            story.worlds[-1][name].topics,
            story.worlds[-1][name].shown,
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_change_did_to_topics_is_counted_as_it_was(seed: int) -> None:
    story = story_of(seed)
    question = Before(at_ms=ms_of(story.changes[45]), window_ms=5_000)
    rows = [named(question, row) for row in question.rows(story.changes, story.now())]
    window = [change for change in story.changes if question.from_ms < ms_of(change) <= question.at_ms]
    assert sorted(str(row["entry"]) for row in rows) == sorted(change.change_id for change in window)
    for row in rows:
        number = next(n for n, one in enumerate(story.changes) if one.change_id == row["entry"])
        before, after = story.worlds[number], story.worlds[number + 1]
        counts = [(len(serving(before, topic)), len(serving(after, topic))) for topic in TOPICS]
        assert row["out"] == sum(was > 0 and not left for was, left in counts)
        assert row["fewer"] == sum(0 < left < was for was, left in counts)
        differ = {
            topic
            for topic in TOPICS
            for name in before
            if _route(before, name, topic) != _route(after, name, topic)
        }
        assert {*row["topics"]} == differ | {*story.changes[number].changed}  # type: ignore[misc]
        assert row["hit"] == len(row["topics"])  # type: ignore[arg-type]
    worst_first = [(-int(str(row["out"])), -int(str(row["fewer"]))) for row in rows]
    assert worst_first == sorted(worst_first)


def _route(world: World, name: str, topic: str) -> object:
    broker = world[name]
    return topic in broker.topics and (broker.serves, broker.shown)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_is_served_after_each_change_by_whom_it_says(seed: int) -> None:
    story = story_of(seed)
    question = TopicHistory(topic="orders", since_ms=BEGIN_MS)
    numbers = {change.change_id: number for number, change in enumerate(story.changes)}
    shown = set()
    for row in question.rows(story.changes, story.now()):
        found = named(question, row)
        number = numbers[str(found["entry"])]
        shown.add(number)
        assert {*found["serving"]} == serving(story.worlds[number + 1], "orders")  # type: ignore[misc]
    for number, change in enumerate(story.changes):
        if serving(story.worlds[number], "orders") != serving(story.worlds[number + 1], "orders"):
            assert number in shown or ms_of(change) <= BEGIN_MS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_difference_leads_from_one_table_to_the_other(seed: int) -> None:
    story = story_of(seed)
    from_ms, to_ms = ms_of(story.changes[20]), ms_of(story.changes[50])
    tables = [
        {(row[1], row[0]) for row in TableAt(at_ms=ms).rows(story.changes, story.now())}
        for ms in (from_ms, to_ms)
    ]
    rows = [
        row for row in Difference(from_ms=from_ms, to_ms=to_ms).rows(story.changes, story.now()) if row[1]
    ]
    gone = {(row[0], row[1]) for row in rows if (row[2], row[3]) == ("held", "absent")}
    come = {(row[0], row[1]) for row in rows if row[2] == "absent" != row[3]}
    assert (tables[0] - gone) | come == tables[1]
    assert (tables[0] - tables[1], tables[1] - tables[0]) == (gone, come)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_difference_tells_what_went_and_came_back_meanwhile(seed: int) -> None:
    story = story_of(seed)
    from_ms, to_ms = ms_of(story.changes[20]), ms_of(story.changes[50])
    worlds = story.worlds[last_at(story.changes, from_ms) : last_at(story.changes, to_ms) + 1]
    rows = [*Difference(from_ms=from_ms, to_ms=to_ms).rows(story.changes, story.now())]
    back = {row[:2] for row in rows if row[1] and row[4]}
    assert back == {
        (name, topic)
        for name in worlds[0]
        for topic in TOPICS
        if (topic in worlds[0][name].topics) == (topic in worlds[-1][name].topics)
        and any((topic in world[name].topics) != (topic in worlds[0][name].topics) for world in worlds)
    }
    meanwhile = {row[0]: row[4] for row in rows if not row[1]}
    for name in worlds[0]:
        if worlds[0][name].serves and worlds[-1][name].serves:
            states = meanwhile.get(name, "").split("; ")
            was_out = any(not world[name].serves for world in worlds)
            assert was_out == any(state and not state.startswith("writable") for state in states)


def test_a_brokers_history_tells_its_state_and_its_topics_after_each_change() -> None:
    story = Story(3)
    question = BrokerHistory(broker="a", since_ms=BEGIN_MS)
    rows = [named(question, row) for row in question.rows(story.changes, story.now())]
    numbers = {change.change_id: number for number, change in enumerate(story.changes)}
    assert rows
    for row in rows:
        broker = story.worlds[numbers[str(row["entry"])] + 1]["a"]
        assert row["topics"] == len(broker.topics)
        assert (row["state"] == "writable") == broker.serves


def test_a_table_has_only_the_topics_that_are_asked_for() -> None:
    now = {"a": BrokerNow(frozenset({"orders", "audit"}), {0: "10.0.0.1:10911"})}
    question = TableAt(at_ms=1, topics=frozenset({"orders"}))
    assert [*question.rows([], now)] == [("orders", "a", "writable", ("0 10.0.0.1:10911",))]


def test_a_replica_whose_next_start_is_all_that_is_told_may_have_been_up() -> None:
    up = Change(kind=ChangeKind.UP, broker_name="a", address="10.0.0.1:10911", change_id="5-0")
    (broker,) = pasts([up], {}, 4).values()
    assert (broker.state, broker.replicas) == (BrokerState.UNKNOWN, ())


def test_a_replica_whose_end_is_all_that_is_told_was_up_somewhere() -> None:
    down = Change(kind=ChangeKind.DOWN, broker_name="a", reason="expired", change_id="5-0")
    (broker,) = pasts([down], {}, 4).values()
    assert (broker.state, broker.replicas) == (BrokerState.WRITABLE, ("0 unknown",))


def test_words_name_some_of_many_topics() -> None:
    change = Change(kind=ChangeKind.TOPICS, broker_name="a", added=("c", "a", "b"), removed=("d",))
    assert told(change, 2) == "added 3: a b and 1 more; removed 1: d"
    assert told(change, None) == "added 3: a b c; removed 1: d"
