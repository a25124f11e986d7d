"""A short change brings its rows by the doorbell: who knows what was there before asks the store nothing."""

from __future__ import annotations

from sharedroutes.client.observers.events import LookupDone
from sharedroutes.registry import Change
from sharedroutes.registry.codec import RowChange
from tests.client.caches import Rig
from tests.client.clients import BELL_ONLY, Stage, until_position
from tests.client.heard import Heard
from tests.registry.builders import broker, topics
from tests.support import await_until


def rung(rig: Rig, change: Change) -> set[str]:
    """Let the cache hear a doorbell with rows; return the topics that changed."""
    return rig.cache.take([change], rig.table.told[change.epoch])


# --- what the cache makes of it ----------------------------------------------------------------------------


def test_a_row_that_follows_on_what_is_known_needs_no_look(rig: Rig) -> None:
    rig.learn(["a", "b"])
    assert rung(rig, rig.table.write("a", ["t"])) == {"t"}
    assert rig.cache.due(0.0) is None
    assert rig.route("t") == rig.table.route("t")


def test_a_known_broker_that_takes_a_topic_on_needs_no_look(rig: Rig) -> None:
    rig.learn(["a"])
    rig.table.register("b", "u")
    rig.ask("u")
    assert rung(rig, rig.table.write("b", ["u", "t"])) >= {"t"}
    assert rig.cache.due(0.0) is None
    assert rig.route("t") == rig.table.route("t")


def test_a_broker_that_is_not_known_is_looked_at(rig: Rig) -> None:
    rig.learn(["a"])
    assert rung(rig, rig.table.write("b", ["t"])) == set()
    assert rig.due(0.0).topics == ("t",)


def test_a_row_that_follows_on_another_one_is_looked_at(rig: Rig) -> None:
    rig.learn(["a"])
    rig.table.write("a", ["t"])  # nobody told of it
    assert rung(rig, rig.table.write("a", ["t"])) == set()
    assert rig.due(0.0).topics == ("t",)


def test_a_doorbell_that_comes_after_a_newer_answer_takes_nothing_back(rig: Rig) -> None:
    rig.learn(["a"])
    late, newest = rig.table.write("a", ["t"]), rig.table.write("a", ["t"])
    rig.answer(rig.cache.request(["t"]))
    route = rig.table.route("t")
    for change in (late, newest):
        rung(rig, change)
        assert rig.route("t") == route
    rig.look()
    assert rig.route("t") == route


def test_a_topic_that_was_removed_is_looked_at(rig: Rig) -> None:
    rig.learn(["a", "b"])
    assert rung(rig, rig.table.write("a", [])) == set()
    assert rig.due(0.0).topics == ("t",)


def test_an_answer_from_before_the_doorbell_changes_nothing_and_is_asked_for_again(rig: Rig) -> None:
    rig.learn(["a", "b"])
    rig.table.write("b", ["t"])  # nobody told of it: the answer has it
    request = rig.cache.request(["t"])
    answer = rig.table.answer(request)
    assert rung(rig, rig.table.write("a", ["t"])) == {"t"}
    known = rig.route("t")
    assert rig.cache.offer(request, answer, 0.0) == set()
    assert rig.route("t") == known
    rig.look()
    assert rig.route("t") == rig.table.route("t")


def test_an_answer_that_says_what_the_doorbell_said_is_enough(rig: Rig) -> None:
    rig.learn(["a"])
    request = rig.cache.request(["t"])
    rung(rig, rig.table.write("a", ["t"]))
    rig.answer(request)
    assert rig.cache.due(0.0) is None


def test_a_topic_that_is_waiting_for_a_look_is_looked_at(rig: Rig) -> None:
    rig.learn(["a"])
    rig.cache.take([rig.table.write("a", ["t"])])
    rung(rig, rig.table.write("a", ["t"]))
    assert rig.due(0.0).topics == ("t",)
    rig.look()
    assert rig.route("t") == rig.table.route("t")


def test_a_forgotten_topic_stays_forgotten(rig: Rig) -> None:
    rig.learn(["a"])
    request = rig.cache.request(["t"])
    rung(rig, rig.table.write("a", ["t"]))
    rig.cache.forget(["t"])
    rig.answer(request)
    assert rig.cache.due(0.0) is None
    assert rig.route("t") is None


def test_rows_of_other_topics_than_those_of_the_change_are_not_taken(rig: Rig) -> None:
    rig.learn(["a"])
    change = rig.table.write("a", ["t"])
    known = rig.route("t")
    row = rig.table.told[change.epoch]["t"]
    other = Change(kind=change.kind, broker_name="a", epoch=change.epoch, changed=("other",))
    assert rig.cache.take([other], {"t": RowChange(row.before, row.now)}) == set()
    assert rig.route("t") == known


# --- over a server -----------------------------------------------------------------------------------------


async def test_a_client_reads_nothing_when_the_queues_of_a_topic_change(stage: Stage) -> None:
    held = stage.agent.register(broker(), topics(2))
    heard = Heard()
    async with stage.in_place(BELL_ONLY, observers=(heard,)) as client:
        # Once it knows of this, by the doorbell or by a read on its first word, it hears the doorbell.
        stage.agent.register(broker("another"), topics(1, first=9))
        await until_position(client, stage.agent.changes_since().position)
        await client.route("t0")
        for queues in (5, 6, 7):
            table = [*topics(1, queues=queues), *topics(1, first=1)]
            held = stage.agent.register(held.broker, table, held=held)

            async def is_there(wanted: int = queues) -> bool:
                return len(await client.subscribe_queues("t0")) == wanted

            await await_until(is_there, description="the client has the change")
        assert len(heard.all(LookupDone)) == 1
