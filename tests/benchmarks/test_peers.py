"""The registries that are compared do what is measured of them; who is faster is not asserted."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.kit.figures import Outcome
from benchmarks.kit.registries.all import REGISTRIES, Running, running
from benchmarks.kit.registries.name_server import ROCKETMQ, ROCKETMQ_FAST
from benchmarks.kit.registries.registry import QUEUES, TOPIC, VICTIM, registrant, table_of, watching
from benchmarks.peers import crash, lookup, propagate, register, watchers
from tests.support import wait_until

TOPICS = 5
OTHER_QUEUES = QUEUES + 1
SOON = [name for name in REGISTRIES if name != ROCKETMQ.name]
"""Those whose clients know of a change before the next half minute."""


@pytest.fixture(scope="module", params=SOON)
def one(request: pytest.FixtureRequest) -> Iterator[Running]:
    with running([REGISTRIES[request.param]]) as field:
        if request.param not in field.running:
            pytest.skip(field.notes[0])
        running_one = field.running[request.param]
        with running_one.session(60) as session:
            session.prepare(table_of(TOPICS))
        yield running_one


@pytest.mark.long
def test_a_broker_is_found_where_it_is_registered_until_it_leaves(one: Running) -> None:
    with one.session(60) as session:
        session.ping()
        session.registering("broker-a", table_of(TOPICS))()
        assert session.lookup(TOPIC) == {"broker-a": QUEUES}
        session.change(replace(table_of(TOPICS)[TOPIC], write_queue_nums=OTHER_QUEUES))
        assert session.lookup(TOPIC) == {"broker-a": OTHER_QUEUES}
        session.beat()
        session.leave()
        # RocketMQ answers first, and takes brokers out in batches (BatchUnregistrationService).
        wait_until(lambda: session.lookup(TOPIC) == {}, description="it is not found any more")


@pytest.mark.long
def test_another_process_sees_a_change_and_a_killed_broker(one: Running) -> None:
    with one.session(60) as session:
        for topic in table_of(TOPICS):
            assert session.lookup(topic) == {}
        session.registering("broker-b", table_of(TOPICS))()
        address = one.server.address
        with watching(one.registry, address, TOPIC) as watcher:
            assert watcher.cached_us(10) > 0
            watcher.expect("broker-b", OTHER_QUEUES)
            session.change(replace(table_of(TOPICS)[TOPIC], write_queue_nums=OTHER_QUEUES))
            assert watcher.seen()
            watcher.expect(VICTIM, QUEUES)
            with registrant(one.registry, address, 2.0, TOPICS) as victim:
                assert watcher.seen()
                watcher.expect(VICTIM, None)
                os.kill(victim.pid, signal.SIGKILL)
                assert watcher.seen()
        session.leave()


def measured(outcome: Outcome) -> set[str]:
    """Return of which registries there are figures."""
    assert all(math.isfinite(value) and value >= 0 for figure in outcome.figures for value in figure.rounds)
    assert len({figure.name for figure in outcome.figures}) == len(outcome.figures)
    return {figure.name.partition(": ")[2] for figure in outcome.figures if " / " not in figure.name}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_question_is_answered_for_all_that_are_there() -> None:
    outcomes = {
        "register": register.run(register.Size(rounds=1, topics=TOPICS, warm_up=0)),
        "lookup": lookup.run(
            lookup.Size(rounds=1, brokers=2, topics=TOPICS, lookups=2, cached=10, warm_up=1)
        ),
        "propagate": propagate.run(propagate.Size(rounds=1, changes=2, topics=TOPICS, polled=0)),
        "crash": crash.run(crash.Size(rounds=1, lease_s=6.0, topics=TOPICS, polled=0)),
        "watchers": watchers.run(
            watchers.Size(rounds=1, watchers=3, topics=TOPICS, idle_s=0.2, name_server=ROCKETMQ_FAST)
        ),
    }
    for name, outcome in outcomes.items():
        absent = {
            note.partition(" is not compared")[0] for note in outcome.notes if " is not compared" in note
        }
        found = measured(outcome)
        assert "sharedroutes" in found, name
        assert not absent & found
        assert len(absent | found) >= 5, name


def test_without_their_servers_the_others_are_left_out_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    others = [REGISTRIES[name] for name in ("ZooKeeper", "etcd", ROCKETMQ_FAST.name)]
    with running(others) as field:
        assert not field.running
    assert all("not compared" in note and "PATH" in note for note in field.notes)
    assert "apt-get install etcd-server" in field.notes[1]
