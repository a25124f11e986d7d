"""An operator says that a mass loss is true: over a real server that was restarted empty."""

from __future__ import annotations

from typing import Final

from sharedroutes.client.observers.events import FeedLost, LossHeld, LossReleased
from tests.client.clients import AnyClient, OwnStage, holders, until_held_by, until_in_place, until_known
from tests.client.heard import Heard, plain
from tests.support import await_until

EVERYTHING: Final = ("broker-a", "broker-b", "t0")


async def lose_everything(own: OwnStage, client: AnyClient) -> None:
    """Let the client know two brokers and all that happened, and their store be restarted empty."""
    await until_known(client, "broker-a", "broker-b")
    newest = own.agent.changes_since().position
    await await_until(lambda: plain(client).has_taken_in(newest), description="all is heard of and read")
    own.server.kill()
    own.server.start()
    await await_until(lambda: client.health().held == EVERYTHING, description="all is held")
    await until_in_place(client)


async def test_what_is_held_is_let_go_as_soon_as_an_operator_says_so(own: OwnStage) -> None:
    heard = Heard()
    own.register("broker-a", "broker-b")
    async with own.client(observers=(heard,)) as client:
        await lose_everything(own, client)
        assert await holders(client, "t0") == {"broker-a", "broker-b"}
        assert heard.all(LossReleased) == []
        plain(client).accept()
        await until_held_by(client, "t0")
        await await_until(lambda: not client.health().held, description="nothing is held")
        assert client.health().source == "live"
    held = heard.all(LossHeld)
    assert len(heard.all(FeedLost)) == 1
    assert len(held) == 1
    assert {*held[0].brokers, *held[0].topics} <= {*EVERYTHING}
    assert heard.all(LossReleased) == [LossReleased("accepted")]


async def test_after_it_brokers_come_back_and_the_next_mass_loss_is_held_again(own: OwnStage) -> None:
    heard = Heard()
    own.register("broker-a", "broker-b")
    async with own.client(observers=(heard,)) as client:
        await lose_everything(own, client)
        plain(client).accept()
        await until_held_by(client, "t0")
        own.register("broker-a", "broker-b")
        await lose_everything(own, client)
        assert await holders(client, "t0") == {"broker-a", "broker-b"}
    assert heard.all(LossReleased) == [LossReleased("accepted")]
    assert len(heard.all(LossHeld)) == 2


async def test_what_an_operator_says_while_the_store_is_away_holds_for_its_first_answers(
    own: OwnStage,
) -> None:
    own.register("broker-a", "broker-b")
    async with own.in_place() as client:
        await until_held_by(client, "t0", "broker-a", "broker-b")
        own.server.kill()
        await await_until(lambda: client.health().last_error, description="the store is away")
        plain(client).accept()
        assert await holders(client, "t0") == {"broker-a", "broker-b"}
        own.server.start()
        await until_held_by(client, "t0")
        await await_until(lambda: not client.health().held, description="nothing is held")
