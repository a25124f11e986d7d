"""Topics from a broker that answers over the protocol: pages, changes, wrong answers, broken connections."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from sharedroutes.broker_agent.topic_sources import remote
from sharedroutes.broker_agent.topic_sources.remote import RemoteTopics
from sharedroutes.registry import DataVersion, QueueMapping
from sharedroutes.remoting import RemotingCommand, RequestCode
from tests.broker_agent.data_files import detail
from tests.broker_agent.follower import Found, Told, following, last_is, loaded, tables
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.support import await_until

OFTEN_S: Final = 0.02
ASKED: Final = RequestCode.GET_ALL_TOPIC_CONFIG


class Broker(SpeakingBroker):
    """A broker whose answers about its topics can be spoilt, and which tells how large they were."""

    def __init__(self) -> None:
        super().__init__()
        self.spoil: Callable[[bytes], bytes] = lambda body: body
        self.total: str | None = None
        self.sizes: list[int] = []
        self.refuse_after_change = False
        """Whether it answers once after the next change, and never again."""

    def create(self, name: str, **fields: Any) -> None:
        super().create(name, **fields)
        if self.refuse_after_change:
            self.after_page = [lambda: self.refusals.update({ASKED: (1, "asked once more")})]

    def answer(self, command: RemotingCommand) -> RemotingCommand:
        answer = super().answer(command)
        if command.code != ASKED:
            return answer
        fields = answer.ext_fields if self.total is None else {"totalTopicNum": self.total}
        answer = replace(answer, body=self.spoil(answer.body), ext_fields=fields)
        self.sizes.append(len(answer.body))
        return answer


def source(broker: SpeakingBroker, **settings: Any) -> RemoteTopics:
    return RemoteTopics(broker.host, broker.port, recheck_s=OFTEN_S, rng=random.Random(7), **settings)


def followed(broker: SpeakingBroker) -> AbstractAsyncContextManager[Told[Found]]:
    return following(loaded(source(broker)))


@asynccontextmanager
async def holding(broker: SpeakingBroker, *names: str) -> AsyncIterator[Told[Found]]:
    """Follow a broker that has these topics, from when they have been told."""
    for name in names:
        broker.create(name)
    async with broker, followed(broker) as told:
        await told.until(last_is(*names), "the first table")
        yield told


async def test_topics_are_read_with_their_version_and_their_queue_mappings() -> None:
    broker = Broker()
    broker.create("a", perm=4)
    broker.create("static")
    broker.mappings["static"] = detail([0, 1])
    async with broker, followed(broker) as told:
        await told.until(tables, "a table")
    (only,) = told.all
    assert only.table.version == DataVersion(0, 1_700_000_000_000, 3)
    assert {name: (topic.perm, topic.queue_mapping) for name, topic in only.table.topics.items()} == {
        "a": (4, None),
        "static": (6, QueueMapping(2, 7, {0: 0, 1: 1})),
    }


@pytest.mark.parametrize("pages", [True, False])
async def test_many_topics_come_in_pages_or_from_an_old_broker_at_once(pages: bool) -> None:  # noqa: FBT001
    broker = Broker()
    broker.pages = pages
    async with holding(broker, *(f"t{number}" for number in range(4_100))):
        pass
    assert len([size for size in broker.sizes if size > 10_000]) == (3 if pages else 1)


async def test_a_table_that_does_not_change_costs_little() -> None:
    broker = Broker()
    broker.pages = True
    async with holding(broker, *(f"t{number}" for number in range(1_000))) as told:
        first = len(broker.sizes)
        await broker.asked_again(3)
        assert max(broker.sizes[first:]) < 300
        assert len(tables(told.all)) == 1


@pytest.mark.parametrize("counts", [False, True])
async def test_the_larger_the_answers_the_less_often_a_broker_is_asked(
    counts: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without pages a broker sends everything each time, and may count its topics all the same."""
    monkeypatch.setattr(remote, "_BYTES_A_S", 100_000)
    names = [f"topic-{number}-{'x' * 200}" for number in range(4_100)]
    large, small = Broker(), Broker()
    large.total = "4100" if counts else None
    async with holding(large, *names), holding(small, "a"):
        asked = large.asked[ASKED]
        await small.asked_again(20)
        assert large.asked[ASKED] == asked


async def test_an_answer_that_is_the_same_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    async with holding(broker, "a", "b") as told:
        await broker.asked_again(3)
        monkeypatch.setattr(remote, "_parsed", None)
        await broker.asked_again(3)
        monkeypatch.undo()
        broker.create("c")
        await told.until(last_is("a", "b", "c"), "the other table")
    assert told.said() == []


async def test_all_topics_that_came_unasked_are_not_asked_for_again() -> None:
    """A broker without pages tells all its topics already when it is asked whether they have changed."""
    broker = Broker()
    async with holding(broker, "a") as told:
        await broker.asked_again(3)
        broker.refuse_after_change = True
        broker.create("b")
        await told.until(last_is("a", "b"), "the other table")
    assert told.said() == []


async def test_a_broker_that_is_up_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RETRY_S", (3_600.0, 3_600.0))
    broker = Broker()
    broker.create("a")
    topics = source(broker)
    async with following(loaded(topics)) as told:
        await await_until(lambda: told.ticks >= 20, description="nobody is there")
        async with broker:
            topics.wake()
            await told.until(last_is("a"), "the table")


async def test_a_broker_that_has_moved_is_asked_where_it_is() -> None:
    one, other = Broker(), Broker()
    one.create("a")
    other.create("b")
    other.create("b", perm=4)
    topics = source(one)
    async with one, other:
        async with following(loaded(topics)) as told:
            await told.until(last_is("a"), "the table")
        topics.move(other.host, other.port)
        async with following(loaded(topics)) as told:
            await told.until(last_is("b"), "the table of the other place")


async def test_a_change_is_told_and_the_rest_stays_the_same_objects() -> None:
    broker = Broker()
    async with holding(broker, "a", "b") as told:
        broker.create("b", perm=4)
        broker.create("c")
        await told.until(last_is("a", "b", "c"), "the other table")
    first, last = tables(told.all)[0], tables(told.all)[-1]
    assert last["a"] is first["a"]
    assert last["b"].perm == 4


async def test_a_mapping_that_changes_alone_is_told() -> None:
    broker = Broker()
    async with holding(broker, "a") as told:
        broker.mappings["a"] = detail([0])
        broker.spoil = lambda body: body.replace(
            b'"mappingDataVersion":{"counter":0', b'"mappingDataVersion":{"counter":1'
        )
        await told.until(lambda found: tables(found)[-1]["a"].queue_mapping, "the mapping")
    assert tables(told.all)[-1]["a"].queue_mapping == QueueMapping(1, 7, {0: 0})


async def test_topics_that_change_between_the_pages_are_read_anew() -> None:
    broker = Broker()
    broker.pages = True
    names = [f"t{number}" for number in range(2_100)]
    broker.after_page = [{"topicName": "a-new-one"}, {"topicName": "z-new-one"}]
    for name in names:
        broker.create(name)
    async with broker, followed(broker) as told:
        await told.until(last_is(*names, "a-new-one", "z-new-one"), "the whole table")
    assert len(tables(told.all)) == 1


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda _: b"", "GET_ALL_TOPIC_CONFIG: Input is a zero-length, empty document"),
        (lambda body: body[:-9], "GET_ALL_TOPIC_CONFIG: "),
        (lambda _: b"[]", "GET_ALL_TOPIC_CONFIG: expected an object, got []"),
        (lambda _: b'{"dataVersion": {}}', "$.topicConfigTable: expected an object, got None"),
        (
            lambda body: body.replace(b'"queueId":0', b'"queueId":[]'),
            "$.topicQueueMappingDetailMap.a.hostedQueues.0[0].queueId: expected a whole number, got []",
        ),
        (
            lambda body: body.replace(b'"stateVersion":0', b'"stateVersion":-1'),
            "$.mappingDataVersion.stateVersion: -1 is not within 0..9223372036854775807",
        ),
    ],
)
async def test_a_wrong_answer_is_reported_once_and_a_right_one_counts_again(
    spoil: Callable[[bytes], bytes], problem: str
) -> None:
    broker = Broker()
    broker.mappings["a"] = detail([0])
    async with holding(broker, "a") as told:
        broker.spoil = spoil
        broker.create("a", order=True)
        await told.until(lambda _: told.said(), "a report")
        await broker.asked_again(2)
        assert len(tables(told.all)) == 1
        broker.spoil = lambda body: body
        await told.until(lambda found: tables(found)[-1]["a"].order, "the right answer")
    report, again = told.said()
    assert report.startswith(
        f"{broker.address}: its topics cannot be read; keeping the 1 topics read before:\n"
    )
    assert problem in report
    assert again == f"{broker.address}: its topics can be read again"


async def test_a_topic_that_makes_no_sense_is_reported_once_and_the_others_count() -> None:
    broker = Broker()
    async with holding(broker, "a") as told:
        broker.spoil = lambda body: body.replace(b'"perm":6', b'"perm":9', 1)
        broker.create("b")
        await told.until(lambda found: len(tables(found)[-1]) == 2, "the other topic")
        (report,) = told.said()
        assert report.endswith(
            "topics that stay as they were or are left out:\n"
            "  $.topicConfigTable.a.perm: 9 is not within 0..7"
        )
        broker.spoil = lambda body: body
        broker.create("c")
        await told.until(lambda found: len(tables(found)[-1]) == 3, "the right answer")
    assert told.said()[1:] == [f"{broker.address}: all its topics can be read again"]


async def test_a_broker_that_refuses_is_reported_with_its_reason() -> None:
    broker = Broker()
    broker.refusals[ASKED] = (16, "no signature")
    async with broker, followed(broker) as told:
        await told.until(lambda _: told.said(), "a report")
    (report,) = told.said()
    assert "its topics cannot be read; it is not registered yet:" in report
    assert report.endswith("GET_ALL_TOPIC_CONFIG was answered with code 16: no signature")


async def test_a_number_of_topics_that_is_none_is_reported() -> None:
    broker = Broker()
    broker.create("a")
    broker.total = "many"
    async with broker, followed(broker) as told:
        await told.until(lambda _: told.said(), "a report")
    assert told.said()[0].endswith("totalTopicNum: 'many' is not a whole number")


async def test_fewer_topics_than_the_broker_says_are_no_table() -> None:
    broker = Broker()
    broker.pages = True
    broker.total = "3"
    broker.create("a")
    broker.create("b")
    async with broker, followed(broker) as told:
        await told.until(lambda _: told.said(), "the report")
        assert "are fewer than the broker says, 10 times in a row" in told.said()[0]
        assert tables(told.all) == []
        broker.create("c")
        await told.until(last_is("a", "b", "c"), "the whole table")


async def test_a_broker_that_comes_later_and_goes_and_comes_again_is_followed_in_silence() -> None:
    broker = Broker()
    broker.create("a")
    async with followed(broker) as told:
        await await_until(lambda: told.ticks >= 10, description="nobody is there")
        await broker.start()
        await told.until(last_is("a"), "the first table")
        broker.hang_up()
        await broker.asked_again(3)
        await broker.die()
        broker.create("b")
        await await_until(lambda: told.ticks >= 20, description="nobody is there")
        await broker.start()
        await told.until(last_is("a", "b"), "the other table")
        await broker.die()
    assert told.said() == []
