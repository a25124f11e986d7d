"""Drawn sequences of requests are answered by a front as by RocketMQ's own name server, byte for byte.

What differs is in the table of docs/nameserver/differences.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedroutes.registry import EmbeddedServer
from tests.support import ASKED_EXAMPLES

from .comparison import Pair
from .differences import PAGE, differences
from .name_servers import Kind, name_servers
from .odd_sequences import (
    GARBAGE,
    SETTINGS,
    dialects,
    moves,
    odd_bodies,
    odd_headers,
    orders,
    promotions,
    zones,
)
from .sequences import (
    NO_TOPICS,
    ODD_TOPICS,
    QUESTIONS,
    Step,
    closes,
    departures,
    heartbeats,
    key_values,
    permissions,
    registrations,
    routes,
    sequences,
    topic_changes,
)
from .stand_in import answering

Test: TypeAlias = Callable[..., None]

RELEASE: Final = "5.5.0"
EXAMPLES: Final = 40
"""Of each test, unless SHAREDROUTES_EXAMPLES asks for more: they are the same ones each time."""

OTHER_SETTINGS: Final = {
    "supportActingMaster": "true",
    "orderMessageEnable": "true",
    "returnOrderTopicConfigToBroker": "false",
    "deleteTopicWithBrokerRegistration": "true",
}


@pytest.fixture(scope="module")
def brokers_port() -> Iterator[int]:
    with answering() as port:
        yield port


def pairs(kind: Kind, folder: Path, port: int, conf: Mapping[str, str]) -> Iterator[Pair]:
    with (
        EmbeddedServer() as server,
        name_servers("original", folder / "0", redis_url="", release=RELEASE, count=1, settings=conf) as one,
        name_servers(
            kind, folder / "1", redis_url=server.url, release=RELEASE, count=1, settings=conf
        ) as other,
    ):
        yield Pair(one.addresses, other.addresses, port, differences(PAGE.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def pair(kind: Kind, folder: Path, brokers_port: int) -> Iterator[Pair]:
    yield from pairs(kind, folder / "plain", brokers_port, {})


@pytest.fixture(scope="module")
def other_pair(kind: Kind, folder: Path, brokers_port: int) -> Iterator[Pair]:
    """Return a pair with the settings that change answers all the other way."""
    yield from pairs(kind, folder / "other", brokers_port, OTHER_SETTINGS)


def drawn(*kinds: st.SearchStrategy[Any], longest: int = 25) -> Callable[[Test], Test]:
    """Run a test with sequences of what is given."""

    def decorate(test: Test) -> Test:
        given_steps = given(steps=sequences(*kinds, longest=longest))(test)
        return settings(max_examples=ASKED_EXAMPLES or EXAMPLES, report_multiple_bugs=False)(given_steps)

    return decorate


@drawn(registrations(), departures(), heartbeats(), QUESTIONS)
def test_brokers_come_and_go(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(registrations(acting=("", "true", "false")), departures(), heartbeats(), QUESTIONS)
def test_masters_and_slaves_with_and_without_acting_masters(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(registrations(least=1), permissions(), topic_changes(), QUESTIONS)
def test_operators_change_topics_and_permissions(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(key_values(), longest=15)
def test_key_values(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(registrations(), orders(), QUESTIONS)
def test_queues_of_ordered_topics(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(registrations(topics=ODD_TOPICS), routes((*ODD_TOPICS, *NO_TOPICS)), QUESTIONS)
def test_names_with_odd_characters(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(dialects(), departures(), QUESTIONS)
def test_registrations_of_all_releases(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(promotions(), closes(), QUESTIONS)
def test_replicas_change_their_roles(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(zones(), QUESTIONS)
def test_zones(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(odd_headers(), registrations(), QUESTIONS)
def test_odd_headers(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(odd_bodies(), registrations(), QUESTIONS)
def test_odd_bodies(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(SETTINGS, key_values(), longest=10)
def test_settings(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(GARBAGE, QUESTIONS, longest=10)
def test_bytes_that_are_no_frames(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(moves(), departures(), QUESTIONS)
def test_replicas_that_share_addresses_and_ids(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@drawn(registrations(acting=("true", "false")), departures(), orders(), QUESTIONS)
def test_acting_masters_with_other_settings(other_pair: Pair, steps: list[Step]) -> None:
    other_pair.run(steps)


@drawn(registrations(least=1), permissions(), topic_changes(), QUESTIONS)
def test_topics_with_other_settings(other_pair: Pair, steps: list[Step]) -> None:
    other_pair.run(steps)
