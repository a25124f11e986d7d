"""Topics of a broker that has never written any: from itself, and for good from its files once it has."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.broker_agent.topic_sources import remote as remote_module
from sharedroutes.broker_agent.topic_sources.files import FileTopics, FreshTopics
from sharedroutes.broker_agent.topic_sources.remote import RemoteTopics
from sharedroutes.broker_agent.topic_sources.source import EffectiveTopics
from sharedroutes.remoting import RequestCode
from tests.broker_agent.data_files import put, remove, rewrite, topics_json
from tests.broker_agent.follower import Found, Told, following, last_is, loaded, tables
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.stand_ins import ListeningBroker
from tests.support import await_until

OFTEN_S: Final = 0.02
ASKED: Final = RequestCode.GET_ALL_TOPIC_CONFIG


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a broker will write its topics; neither the file exists nor its folder."""
    return tmp_path / "store" / "config" / "topics.json"


def source(path: Path, port: int, deadline_s: float = 30.0) -> FreshTopics:
    asked = RemoteTopics("127.0.0.1", port, recheck_s=OFTEN_S, deadline_s=deadline_s, silence=logging.DEBUG)
    return FreshTopics(path, FileTopics(path, recheck_s=OFTEN_S), asked)


@asynccontextmanager
async def fresh(path: Path) -> AsyncIterator[tuple[SpeakingBroker, FreshTopics, Told[Found]]]:
    """Follow a broker that has a system topic and no file, from when that topic has been told."""
    async with SpeakingBroker() as broker:
        broker.create("TBW102")
        topics = source(path, broker.port)
        async with following(loaded(topics)) as told:
            await told.until(last_is("TBW102"), "what the broker says")
            yield broker, topics, told


def is_asking(topics: FreshTopics) -> bool:
    return topics.asks


async def not_asked(broker: SpeakingBroker, told: Told[Found]) -> bool:
    """Return whether nobody asks the broker in a time in which it would be asked many times."""
    asked, ticks = broker.asked[ASKED], told.ticks
    await await_until(lambda: told.ticks >= ticks + 20, timeout_s=30.0, description="time passes")
    return broker.asked[ASKED] == asked


async def test_a_broker_without_a_file_is_asked_until_there_is_one_and_then_never_again(path: Path) -> None:
    async with fresh(path) as (broker, topics, told):
        assert is_asking(topics)
        broker.create("orders")
        await told.until(last_is("TBW102", "orders"), "a topic that it has not written")
        put(path, topics_json("TBW102", "orders", "payments"))
        await told.until(last_is("TBW102", "orders", "payments"), "what the file says")
        assert not is_asking(topics)
        remove(path)
        broker.create("elsewhere")
        assert await not_asked(broker, told)
        rewrite(path, topics_json("TBW102", counter=7))
        await told.until(last_is("TBW102"), "what the file says now")
    begins, ends = told.said()[:2]
    assert begins == f"{path}: is not there yet; until it is, the broker tells its topics itself"
    assert ends == f"{path}: is there now, and from here on the topics are read there"


async def test_who_looks_anew_does_not_ask_once_there_has_been_a_file(path: Path) -> None:
    async with fresh(path) as (broker, topics, told):
        put(path, topics_json("orders"))
        await told.until(last_is("orders"), "what the file says")
        async with following(loaded(topics)) as again:
            assert await not_asked(broker, again)


async def test_a_file_that_cannot_be_used_ends_the_asking_and_what_the_broker_said_stays(path: Path) -> None:
    async with fresh(path) as (broker, topics, told):
        put(path, b"{")
        await told.until(lambda _: len(told.said()) == 2, "the report")
        assert not is_asking(topics)
        assert await not_asked(broker, told)
        assert last_is("TBW102")(told.all)


async def test_a_backup_without_its_file_is_read_and_nobody_is_asked(path: Path) -> None:
    put(path.with_name("topics.json.bak"), topics_json("orders"))
    async with SpeakingBroker() as broker:
        broker.create("TBW102")
        async with following(loaded(source(path, broker.port))) as told:
            await told.until(last_is("orders"), "what the .bak says")
        assert not broker.asked[ASKED]
    assert len(tables(told.all)) == 1


async def test_as_long_as_the_broker_tells_its_topics_a_missing_file_is_no_trouble(path: Path) -> None:
    async with fresh(path) as (_, _, told):
        await await_until(lambda: told.ticks >= 150, timeout_s=60.0, description="a second and a half")
    assert len(told.said()) == 1


async def test_whoever_does_not_speak_the_protocol_is_waited_for_in_silence(path: Path) -> None:
    async with (
        ListeningBroker() as broker,
        following(loaded(source(path, broker.port, deadline_s=0.02))) as told,
    ):
        await await_until(lambda: broker.accepted >= 3, description="asked again and again")
        await told.until(lambda _: any("the file is missing" in text for text in told.said()), "the report")
        put(path, topics_json("orders"))
        await told.until(last_is("orders"), "what the file says")
    asking = [one for one in told.records if "GET_ALL_TOPIC_CONFIG" in one.getMessage()]
    assert [one.levelno for one in asking] == [logging.DEBUG]


async def test_a_broker_that_refuses_to_tell_its_topics_is_reported(path: Path) -> None:
    async with SpeakingBroker() as broker:
        broker.refusals[ASKED] = (16, "no signature")
        async with following(loaded(source(path, broker.port))) as told:
            await told.until(lambda _: "no signature" in " ".join(told.said()), "the report")
    (report,) = [one for one in told.records if "no signature" in one.getMessage()]
    assert report.levelno == logging.ERROR


async def test_another_permission_counts_wherever_the_topics_come_from(path: Path) -> None:
    effective = EffectiveTopics(6)
    async with SpeakingBroker() as broker:
        broker.create("TBW102")
        async with following(loaded(source(path, broker.port), effective)) as told:
            await told.until(last_is("TBW102"), "what the broker says")
            found = await effective.permit(4)
            assert found is not None
            assert found.table.topics["TBW102"].perm == 4
            put(path, topics_json("orders"))
            await told.until(last_is("orders"), "what the file says")
            assert tables(told.all)[-1]["orders"].perm == 4
            found = await effective.permit(6)
            assert found is not None
            assert found.table.topics["orders"].perm == 6


async def test_what_ends_one_of_the_two_ends_both(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(remote_module, "_parsed", broken)
    async with SpeakingBroker() as broker:
        broker.create("TBW102")
        with pytest.raises(ExceptionGroup) as caught:
            async for _ in source(path, broker.port).found():
                pass
    assert caught.group_contains(ZeroDivisionError)
