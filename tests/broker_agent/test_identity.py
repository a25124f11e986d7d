"""What a broker is while its file says one thing, and the running broker another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.broker_agent.rocketmq.broker_conf import BrokerConf
from sharedroutes.broker_agent.roles.identity import Identity
from sharedroutes.registry import Broker

MASTER: Final = Broker("broker-a", "10.0.0.7:10911")
SLAVE: Final = replace(MASTER, broker_id=3)
MOVED: Final = replace(MASTER, address="10.0.0.7:20911")


def conf(broker: Broker, broker_permission: int = 6) -> BrokerConf:
    return BrokerConf(broker=broker, topics_path=Path("topics.json"), broker_permission=broker_permission)


@pytest.fixture
def running() -> Identity:
    """Return the identity of a master that runs."""
    identity = Identity(MASTER)
    assert identity.read(conf(MASTER)) == conf(MASTER)
    identity.started()
    return identity


@pytest.mark.parametrize("other", [SLAVE, MOVED])
def test_another_id_or_address_counts_when_the_broker_has_ended(running: Identity, other: Broker) -> None:
    assert running.read(conf(other)) == conf(MASTER)
    assert "it counts when the broker restarts" in running.waiting
    assert running.ended() == conf(other)
    assert running.waiting == ""


@pytest.mark.parametrize("other", [SLAVE, MOVED])
def test_it_counts_at_once_when_the_running_broker_says_the_same(running: Identity, other: Broker) -> None:
    running.read(conf(other))
    assert running.answered(conf(MASTER)) == conf(MASTER)
    assert running.answered(conf(other)) == conf(other)


def test_a_file_that_leaves_the_host_to_a_default_is_confirmed_by_the_id(running: Identity) -> None:
    running.read(conf(SLAVE))
    assert running.answered(conf(replace(SLAVE, address="192.168.0.1:10911"))) == conf(SLAVE)


def test_another_host_is_not_confirmed_by_a_broker_that_does_not_name_it(running: Identity) -> None:
    running.read(conf(MOVED))
    assert running.answered(conf(replace(MASTER, address="192.168.0.1:10911"))) == conf(MASTER)


def test_a_file_that_is_put_right_again_leaves_nothing_to_wait_for(running: Identity) -> None:
    running.read(conf(SLAVE))
    assert running.read(conf(MASTER)) == conf(MASTER)
    assert running.waiting == ""
    assert running.ended() == conf(MASTER)


def test_what_is_no_identity_counts_at_once(running: Identity) -> None:
    other = replace(MASTER, enable_acting_master=True)
    assert running.read(conf(other, 4)) == conf(other, 4)


def test_the_running_broker_knows_its_permission_best_while_it_answers(running: Identity) -> None:
    assert running.answered(conf(MASTER, 4)) == conf(MASTER, 4)
    assert running.read(conf(MASTER, 2)) == conf(MASTER, 4)
    assert running.answered(None) == conf(MASTER, 2)


def test_before_the_broker_was_found_its_file_counts_at_once() -> None:
    identity = Identity(MASTER)
    assert identity.answered(conf(SLAVE)) is None
    assert identity.read(conf(MOVED)) == conf(MOVED)


def acting(broker: Broker, *, word: bool | None) -> BrokerConf:
    return conf(replace(broker, enable_acting_master=word))


@pytest.fixture
def slave() -> Identity:
    """Return the identity of a slave that runs, whose file says nothing of acting masters."""
    identity = Identity(SLAVE)
    assert identity.read(conf(SLAVE)) == conf(SLAVE)
    identity.started()
    return identity


@pytest.mark.parametrize("word", [False, True, None])
def test_a_slave_says_itself_whether_it_knows_of_acting_masters(
    slave: Identity, *, word: bool | None
) -> None:
    said = acting(SLAVE, word=word)
    assert slave.answered(said) == said
    assert slave.answered(None) == said  # what it does not say for a moment is no other word
    assert slave.ended() == said


@pytest.mark.parametrize("word", [False, None])
def test_a_slave_that_runs_without_acting_masters_has_none_whatever_its_file_says(
    slave: Identity, *, word: bool | None
) -> None:
    slave.answered(acting(SLAVE, word=word))
    assert slave.read(acting(SLAVE, word=True)) == acting(SLAVE, word=word)
    assert slave.ended() == acting(SLAVE, word=True)


def test_a_master_that_says_no_is_the_one_that_says_nothing(running: Identity) -> None:
    assert running.answered(acting(MASTER, word=False)) == conf(MASTER)
    assert running.answered(acting(MASTER, word=True)) == acting(MASTER, word=True)
