"""Drawn sequences of requests are answered by a front as by RocketMQ's own name server, byte for byte.

What differs is in the table of docs/nameserver.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings

from tests.support import examples

from .comparison import Pair
from .differences import PAGE, differences
from .name_servers import Kind, name_servers
from .sequences import (
    ODD_TOPICS,
    QUESTIONS,
    Step,
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

RELEASE: Final = "5.5.0"


@pytest.fixture(scope="module")
def brokers_port() -> Iterator[int]:
    with answering() as port:
        yield port


def pairs(kind: Kind, folder: Path, redis_url: str, port: int, conf: Mapping[str, str]) -> Iterator[Pair]:
    with (
        name_servers("original", folder / "0", redis_url="", release=RELEASE, count=1, settings=conf) as one,
        name_servers(
            kind, folder / "1", redis_url=redis_url, release=RELEASE, count=1, settings=conf
        ) as other,
    ):
        yield Pair(one.addresses, other.addresses, port, differences(PAGE.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def pair(kind: Kind, folder: Path, redis_url: str, brokers_port: int) -> Iterator[Pair]:
    yield from pairs(kind, folder / "plain", redis_url, brokers_port, {})


@given(sequences(registrations(), departures(), heartbeats(), QUESTIONS))
@settings(max_examples=examples(200))
def test_brokers_come_and_go(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@given(sequences(registrations(acting=("", "true", "false")), departures(), heartbeats(), QUESTIONS))
@settings(max_examples=examples(200))
def test_masters_and_slaves_with_and_without_acting_masters(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@given(sequences(registrations(), permissions(), topic_changes(), QUESTIONS))
@settings(max_examples=examples(200))
def test_operators_change_topics_and_permissions(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@given(sequences(key_values(), longest=15))
@settings(max_examples=examples(100))
def test_key_values(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)


@given(sequences(registrations(topics=ODD_TOPICS), routes(ODD_TOPICS), QUESTIONS))
@settings(max_examples=examples(100))
def test_names_with_odd_characters(pair: Pair, steps: list[Step]) -> None:
    pair.run(steps)
