"""What cannot be a name is refused before anything else is done: by clients that were not even started."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import pytest

from sharedroutes.client import AsyncRouteClient, ClientConfig, RouteClient
from sharedroutes.registry import Broker, InvalidInput, TopicConfig
from sharedroutes.registry.checks import MAX_NAME_BYTES
from tests.client.clients import QUICK, Stage

NOBODY: Final = "redis://127.0.0.1:1/0"
"""Nothing answers there, so who asks it fails in another way."""

BAD: Final = ("", "a\nb", "a b", "x" * 300, None, 5, b"orders", "\udc80")
LONGEST: Final = "x" * MAX_NAME_BYTES

Use = Callable[[Any, Any], Any]
OF_A_NAME: Final[dict[str, tuple[str, Use]]] = {
    "select_queue": ("topic", lambda client, name: client.select_queue(name)),
    "select_queue for a group": ("topic", lambda client, name: client.select_queue(name, key="k")),
    "avoid in a list": ("avoid", lambda client, name: client.select_queue("orders", [name])),
    "attempts": ("topic", lambda client, name: client.attempts(name)),
    "sending": ("topic", lambda client, name: client.sending(name)),
    "route": ("topic", lambda client, name: client.route(name)),
    "subscribe_queues": ("topic", lambda client, name: client.subscribe_queues(name)),
    "get": ("topics", lambda client, name: client.get(["orders", name])),
    "prefetch": ("topics", lambda client, name: client.prefetch(["orders", name])),
    "watch": ("topics", lambda client, name: client.watch(["orders", name])),
    "on_change": ("topics", lambda client, name: client.on_change(print, ["orders", name])),
    "forget": ("topics", lambda client, name: client.forget(["orders", name])),
    "record": ("broker_name", lambda client, name: client.record(name, 0.1)),
    "find_address": ("broker_name", lambda client, name: client.find_address(name)),
}
LISTS: Final = ("get", "prefetch", "watch", "forget")


async def used(make: Callable[..., Any], config: ClientConfig, use: Use, name: Any) -> None:
    found = use(make(NOBODY, config), name)
    if inspect.isawaitable(found):
        await found


@pytest.mark.parametrize("default_topic", ["", "TBW102"])
@pytest.mark.parametrize("make", [RouteClient.from_url, AsyncRouteClient.from_url])
@pytest.mark.parametrize("method", OF_A_NAME)
async def test_what_cannot_be_a_name_is_refused_and_its_argument_is_named(
    method: str, make: Callable[..., Any], default_topic: str
) -> None:
    argument, use = OF_A_NAME[method]
    for name in BAD:
        with pytest.raises(InvalidInput, match=f"^{argument}: "):
            await used(make, ClientConfig(default_topic=default_topic), use, name)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300])
async def test_a_single_broker_to_avoid_is_checked_too(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^avoid: "):
        await used(RouteClient.from_url, QUICK, lambda client, bad: client.select_queue("orders", bad), name)


@pytest.mark.parametrize("make", [RouteClient.from_url, AsyncRouteClient.from_url])
@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("names", ["orders", b"orders", 5])
async def test_a_list_of_topics_has_to_be_one(method: str, make: Callable[..., Any], names: object) -> None:
    with pytest.raises(InvalidInput, match=r"^topics: expected several names"):
        await used(make, QUICK, lambda client, bad: getattr(client, method)(bad), names)


async def test_all_that_the_registry_can_hold_can_be_looked_up(stage: Stage) -> None:
    # Brokers register their own name as a topic, too; RocketMQ would let nobody create it.
    names = ("broker-1.example.net", "%RETRY%group", "a/b:c", "Bestellungen_\u00fc", LONGEST)
    stage.agent.register(Broker("broker-a", "127.0.0.1:10911"), [TopicConfig(name) for name in names])
    async with stage.client() as client:
        for name in names:
            assert (await client.select_queue(name)).topic == name
