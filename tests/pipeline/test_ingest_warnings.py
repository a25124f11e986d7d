"""Who runs the ingest is warned before the registry's trim overtakes it, and once."""

from __future__ import annotations

import logging

import pytest
import redis

from sharedroutes.pipeline.ingest.headroom import Kept, Watch
from sharedroutes.pipeline.sources.options import Registry
from tests.pipeline.ingest_history import add
from tests.ports import free_port

KEPT = Kept(entries=100, min_age_ms=0)


def watch(url: str) -> Watch:
    return Watch([Registry("r", url, "sharedroutes")], KEPT, 0.5)


def test_a_warning_comes_once_until_there_is_headroom_again(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = redis.Redis.from_url(redis_url)
    add(client, 101, ms=1_000)
    with watch(redis_url) as watching, caplog.at_level(logging.WARNING):
        for position in ("1090-0", "1030-0", "1020-0", "1100-0", "1010-0"):
            (room,) = watching.look({"r": position})
    assert (room.registry, room.unread) == ("r", 91)
    warnings = [record.message for record in caplog.records]
    assert len(warnings) == 2
    assert "registry r: about 71 changes are unread" in warnings[0]
    assert "where the registry keeps 100 and all younger than 0 s" in warnings[0]
    assert "feed_max_entries" in warnings[0]


def test_it_says_that_the_trim_has_overtaken_the_ingest(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    add(redis.Redis.from_url(redis_url), 60, ms=1_000)
    with watch(redis_url) as watching, caplog.at_level(logging.WARNING):
        watching.look({"r": "900-0"})
    assert caplog.messages[0].endswith("the trim has overtaken the ingest, changes may be lost")


def test_a_store_that_cannot_be_asked_is_said_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with watch(f"redis://127.0.0.1:{free_port()}") as watching, caplog.at_level(logging.WARNING):
        assert watching.look({}) == ()
    assert "registry r: its change stream could not be looked at" in caplog.messages[0]
