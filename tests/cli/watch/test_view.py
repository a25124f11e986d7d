"""The view of `watch` at 80x24, driven by keys, on a real server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from textual import events
from textual.pilot import Pilot

from sharedroutes.cli.watch.app import WatchApp
from sharedroutes.cli.watch.grid import MOST_ROWS, Grid, fitted
from sharedroutes.registry import (
    AsyncRouteStore,
    Broker,
    EmbeddedServer,
    RegistryConfig,
    RouteStore,
    TopicConfig,
)
from tests.support import await_until

SIZE: Final = (80, 24)


class View:
    """What somebody sees, and the keys under their fingers."""

    def __init__(self, app: WatchApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    def lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    def rows(self) -> list[list[str]]:
        """Return the words of the rows of the table that is shown."""
        grid = self.app.query_one(f"#{self.app.pane} Grid", Grid)
        return [" ".join(map(str, grid.get_row_at(place))).split() for place in range(grid.row_count)]

    async def until(self, condition: Callable[[], Any], description: str) -> None:
        async def holds() -> bool:
            await self.pilot.pause()
            return bool(condition())

        await await_until(holds, timeout_s=30.0, description=description)

    async def until_shown(self, text: str) -> None:
        await self.until(lambda: text in "\n".join(self.lines()), f"{text!r} is shown")


@asynccontextmanager
async def watching(url: str, **settings: Any) -> AsyncIterator[View]:
    async with AsyncRouteStore.from_url(url, RegistryConfig(**settings)) as store:
        app = WatchApp(store, "sharedroutes")
        async with app.run_test(size=SIZE) as pilot:
            yield View(app, pilot)


@pytest.fixture
def registered(store: RouteStore) -> RouteStore:
    """Return the store with a live broker and a dead one."""
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders"), TopicConfig("audit")])
    store.unregister(store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders")]))
    return store


@pytest.mark.usefixtures("registered")
async def test_all_of_it_fits_into_80_by_24(redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.until_shown("broker-a:0")
        lines = view.lines()
        assert (len(lines), max(map(len, lines)) <= SIZE[0]) == (SIZE[1], True)
        assert lines[0] == "sharedroutes  the store answers"
        assert lines[1] == "1 live, 1 dead, 0 out  |  2 topics  |  1 fault"
        assert lines[2].split() == ["brokers", "topics", "changes", "faults"]
        keys = "1 brokers 2 topics 3 changes 4 faults / search f filter q quit"
        assert lines[-1].split() == keys.split()
        assert " ".join(view.rows()[1]) == "broker-b:0 - 1 dead: unregiste… 10.0.0.2:10911 Default…"


async def test_long_addresses_yield_and_a_lease_is_seen_to_run_down(
    store: RouteStore, redis_url: str
) -> None:
    for name in ("broker-a", "broker-b"):
        host = f"{name}-0.{name}-headless.rocketmq-production.svc.cluster.local"
        held = store.register(Broker(name, f"{host}:10911"), [TopicConfig("orders")])
    store.unregister(held)
    async with watching(redis_url) as view:
        await view.until_shown("broker-b:0")
        first, second = (" ".join(line.split()) for line in view.lines()[5:7])
        assert re.fullmatch(r"broker-a:0 [█░]{8} \d+ s 1 live broker-a-0\.br[^ ]*… Default…", first)
        assert re.fullmatch(r"broker-b:0 - 1 dead: unregis[^ ]*… broker-b-0\.br[^ ]*… Default…", second)
        grid = view.app.query_one("#brokers Grid", Grid)
        assert (grid.max_scroll_x, grid.show_horizontal_scrollbar) == (0, False)
        await view.pilot.resize_terminal(200, 24)
        await view.until_shown("svc.cluster.local:10911  DefaultCluster")


def test_the_widest_column_yields_first_and_the_last_group_last() -> None:
    groups = ((1, 2), (0,))
    assert fitted([10, 50, 18], 100, groups) == [10, 50, 18]
    assert fitted([10, 50, 18], 60, groups) == [10, 32, 18]
    assert fitted([10, 50, 18], 40, groups) == [10, 15, 15]
    assert fitted([30, 50, 18], 40, groups) == [24, 8, 8]
    assert fitted([30, 50, 18], 3, groups) == [8, 8, 8]


async def test_each_table_has_a_key(registered: RouteStore, redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.until_shown("broker-a:0")
        await view.pilot.press("2")
        assert view.rows() == [["audit", "broker-a", "-"], ["orders", "broker-a", "broker-b"]]
        await view.pilot.press("4")
        assert view.rows() == [["broker-b:0", "dead:", "unregistered"]]
        await view.pilot.press("3")
        registered.kv.put("ns", "key", "value")
        await view.until(lambda: [row[1:4] for row in view.rows()] == [["kv", "ns/key", "put"]], "it is told")
        await view.pilot.press("1")
        assert view.rows()[0][0] == "broker-a:0"


async def test_what_happens_is_seen_as_it_happens(registered: RouteStore, redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.until_shown("nothing has changed since this began")
        registered.register(Broker("broker-c", "10.0.0.3:10911"), [TopicConfig("new")])
        await view.until(lambda: [row[0] for row in view.rows()][-1:] == ["broker-c:0"], "it is listed")
        registered.admin.wipe_write_perm("broker-c")
        await view.until_shown("write permission taken away")
        await view.until(lambda: "wiped:" in view.rows()[-1], "it is marked")


@pytest.mark.usefixtures("registered")
async def test_a_search_is_typed_kept_and_cleared(redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.until_shown("broker-a:0")
        await view.pilot.press("slash", *"0.0.2")
        await view.until(lambda: [row[0] for row in view.rows()] == ["broker-b:0"], "only one is left")
        await view.pilot.press("enter", "f", "f")
        assert view.lines()[1].startswith("only trouble  |  only with '0.0.2'  |  1 live, ")
        await view.pilot.press("escape")
        await view.until(lambda: len(view.rows()) == 2, "all are back")
        assert "only" not in view.lines()[1]


@pytest.mark.usefixtures("registered")
async def test_the_filter_goes_from_all_to_live_to_trouble(redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.until_shown("broker-a:0")
        seen = []
        for _ in range(3):
            seen.append([row[0] for row in view.rows()])
            await view.pilot.press("f")
        assert seen == [["broker-a:0", "broker-b:0"], ["broker-a:0"], ["broker-b:0"]]


@pytest.mark.usefixtures("registered")
async def test_a_search_that_is_typed_faster_than_it_is_read_is_no_key_either(redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.until_shown("broker-a:0")
        for key in "/q/1":  # q would quit, and 1 show another table
            view.app.post_message(events.Key("slash" if key == "/" else key, key))
        await view.until(lambda: view.app.query_text == "q/1", "all of it is in the search")


async def test_a_tick_while_it_ends_is_no_error(redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.app.query("#head, TabbedContent").remove()
        view.app.refresh_board()


@pytest.mark.usefixtures("registered")
async def test_letters_of_a_search_are_no_keys(redis_url: str) -> None:
    async with watching(redis_url) as view:
        await view.until_shown("broker-a:0")
        await view.pilot.press("slash", *"q2f")
        assert view.app.query_text == "q2f"
        assert (view.app.is_running, view.app.pane) == (True, "brokers")


async def test_the_cursor_stays_where_it_is_while_rows_come_and_go(store: RouteStore, redis_url: str) -> None:
    for number in range(5):
        store.register(Broker(f"broker-{number}", f"10.0.0.{number}:1"), [])
    async with watching(redis_url) as view:
        await view.until_shown("broker-4:0")
        await view.pilot.press("down", "down", "down")
        grid = view.app.query_one("#brokers Grid", Grid)
        store.register(Broker("broker-5", "10.0.0.5:1"), [])
        await view.until(lambda: grid.row_count == 6, "another row is there")
        assert grid.cursor_row == 3


async def test_of_many_topics_some_are_shown_and_all_are_found(store: RouteStore, redis_url: str) -> None:
    topics = [TopicConfig(f"topic-{number:04}") for number in range(MOST_ROWS + 100)]
    store.register(Broker("broker-a", "10.0.0.1:1"), topics)
    async with watching(redis_url) as view:
        await view.until_shown("600 topics")
        await view.pilot.press("2")
        assert len(view.rows()) == MOST_ROWS
        await view.until_shown("500 of 600 shown: search with /")
        await view.pilot.press("slash", *"0599")
        await view.until(lambda: [row[0] for row in view.rows()] == ["topic-0599"], "it is found")


async def test_names_are_no_markup_and_no_commands(store: RouteStore, redis_url: str) -> None:
    store.register(Broker("broker-a", "10.0.0.1:1"), [TopicConfig("[red]orders[/]")])
    async with watching(redis_url) as view:
        await view.until_shown("1 topic")
        await view.pilot.press("2")
        await view.until_shown("[red]orders[/]")


async def test_a_store_that_goes_away_is_said_and_that_it_is_back(own_server: EmbeddedServer) -> None:
    async with watching(own_server.url, call_deadline_s=0.5) as view:
        await view.until_shown("the store answers")
        own_server.kill()
        await view.until_shown("the store is away for ")
        own_server.start()
        await view.until_shown("the store answers")
        await view.until_shown("store  back  after ")


async def test_a_store_that_is_not_there_yet_is_awaited(own_server: EmbeddedServer) -> None:
    own_server.kill()
    async with watching(own_server.url) as view:
        await view.until_shown("waiting for the store: ")
        own_server.start()
        await view.until_shown("the store answers")
