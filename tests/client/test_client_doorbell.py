"""A client whose user may not hear the doorbell listens as soon as it may."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry.change_stream import stream
from tests.client.clients import OwnStage, until_in_place
from tests.support import await_until


async def test_a_client_that_is_given_the_right_later_listens_from_then_on(
    own: OwnStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream, "REFUSED_PAUSE_S", 0.2)
    channel = own.agent.keys.changes
    with redis.Redis.from_url(own.server.url) as admin:

        def listeners() -> int:
            ((_, count),) = admin.pubsub_numsub(channel)
            return int(count)

        rules = ("on", ">pw", "~*", "+@all", "resetchannels")
        admin.execute_command("ACL", "SETUSER", "u", *rules)
        with caplog.at_level("INFO", "sharedroutes.client"):
            async with own.make_client(own.url.replace("//", "//u:pw@"), tail_s=0.05) as client:
                await until_in_place(client)
                await await_until(lambda: "no doorbell" in caplog.text, description="it was refused")
                assert listeners() == 0
                admin.execute_command("ACL", "SETUSER", "u", "allchannels")
                await await_until(lambda: listeners() == 1, description="the client listens")
