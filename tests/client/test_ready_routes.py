"""What callers get of the cache: views, routes and their generations, the brokers of the default topic."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace

import pytest

from sharedroutes.client import ClientConfig, Route
from sharedroutes.client.cache import Request, RouteCache
from sharedroutes.client.routes import ReadyRoutes
from sharedroutes.client.selection.queues import QueueRing
from sharedroutes.registry import Change, QueueData, TopicRoute
from tests.client.caches import CONFIG, SETTLED, Rig
from tests.client.fake_table import FakeTable
from tests.client.heard import PLACE, Core
from tests.client.topics import NOBODY, QUIET

DEFAULT = "TBW102"
BORROWING = replace(CONFIG, default_topic=DEFAULT)


class Client(Rig):
    """A cache and what is served of it, over a registry in memory."""

    def __init__(self, table: FakeTable, config: ClientConfig = CONFIG) -> None:
        rng = random.Random(1)
        super().__init__(RouteCache(config, rng), table)
        self.served = ReadyRoutes(config, self.cache.table, rng)
        self.look()

    def answer(self, request: Request, now: float = 0.0) -> set[str]:
        """Answer a request, and serve what it changed."""
        changed = super().answer(request, now)
        self.served.change(changed)
        return changed

    def take(self, *changes: Change) -> None:
        """Hear of changes, and read what they make due."""
        self.served.change(self.cache.take(changes))
        self.look(SETTLED)

    def serve(self, topic: str, as_of: float | None = None) -> Route:
        """Return a route that is known."""
        found = self.served.route(topic, as_of)
        assert found is not None
        return found

    def queues(self, topic: str) -> dict[str, int]:
        """Return how many queues each broker of a topic has for a producer."""
        view = self.served.view(topic)
        assert view is not None
        names = [queue.broker_name for queue in view.queues]
        assert {queue.topic for queue in view.queues} == {topic}
        return {name: names.count(name) for name in names}


@pytest.fixture
def client(table: FakeTable) -> Client:
    return Client(table)


@pytest.fixture
def borrower(table: FakeTable) -> Client:
    return Client(table, BORROWING)


def set_queues(table: FakeTable, topic: str, name: str, read: int, write: int) -> None:
    """Give a topic so many queues on a broker."""
    row = table.rows[topic][name]
    table.rows[topic][name] = QueueData(name, read, write, row.perm, row.topic_sys_flag)


# --- routes ------------------------------------------------------------------------------------------------


def test_what_is_not_known_is_not_served(client: Client) -> None:
    assert client.served.route("t", None) is None
    assert client.served.view("t") is None
    assert client.served.routes == {}
    assert client.served.views == {}


def test_a_route_says_what_the_table_says(client: Client) -> None:
    client.table.register("a", "t")
    client.ask("t")
    route = client.serve("t", 5.0)
    assert route == client.table.route("t")
    assert hash(route) == hash(replace(route, generation=99, as_of=None))
    assert route.as_of == 5.0
    assert client.served.routes == {"t": route}
    with pytest.raises(FrozenInstanceError):
        route.generation = 7  # type: ignore[misc]


def test_a_route_does_not_equal_one_of_another_topic_or_anything_else() -> None:
    route = Route("t", (), (), 1, 2.0)
    assert route == Route("t", (), (), 3, None) == TopicRoute("t", (), ())
    assert route != Route("u", (), (), 1, 2.0)
    assert route != "t"


def test_a_route_that_the_store_did_not_confirm_has_no_age() -> None:
    assert Route("t", (), ()).age_s is None
    age_s = Route("t", (), (), as_of=0.0).age_s
    assert age_s is not None
    assert age_s > 0


def test_a_confirmation_makes_routes_younger_and_nothing_else(client: Client) -> None:
    client.table.register("a", "t")
    client.ask("t")
    before, view = client.serve("t", 1.0), client.served.view("t")
    client.served.confirm()
    assert client.served.routes == {}
    after = client.serve("t", 2.0)
    assert (after, after.generation, after.as_of) == (before, before.generation, 2.0)
    assert client.served.views == {"t": view}


# --- generations -------------------------------------------------------------------------------------------


def test_the_generation_grows_with_each_change_of_the_route(client: Client) -> None:
    table = client.table
    table.register("a", "t")
    client.ask("t")
    generations = [client.serve("t").generation]
    events: list[Callable[[], list[Change]]] = [
        lambda: table.register("b", "t"),
        lambda: [table.come_up("a", 1)],
        lambda: [table.unregister("b")],
    ]
    for happens in events:
        client.take(*happens())
        generations.append(client.serve("t").generation)
    assert generations == sorted({*generations})


def test_the_generation_stays_while_the_route_does(client: Client) -> None:
    table = client.table
    up = table.register("a", "t")
    client.ask("t")
    route = client.serve("t")
    table.register("b", "other")
    client.ask("other")
    client.take(*up, *table.register("c", "unknown"), table.unregister("b"))
    client.full_look(SETTLED)
    client.look(SETTLED)
    assert client.serve("t").generation == route.generation


def test_a_row_of_a_broker_that_does_not_live_is_no_change_of_the_route(client: Client) -> None:
    table = client.table
    table.register("a", "t")
    client.ask("t")
    route = client.serve("t")
    for topics in (["t"], []):
        client.take(table.write("dead", topics))
        assert client.serve("t") == route
        assert client.serve("t").generation == route.generation


def test_a_route_that_comes_back_is_of_a_later_generation(client: Client) -> None:
    table = client.table
    table.register("a", "t")
    client.ask("t")
    before = client.serve("t").generation
    client.take(table.unregister("a"))
    assert client.served.route("t", None) is None
    client.take(table.come_up("a"))
    assert client.serve("t").generation > before


def test_a_topic_that_was_forgotten_comes_back_in_a_later_generation(client: Client) -> None:
    client.table.register("a", "t")
    client.ask("t")
    before = client.serve("t").generation
    client.cache.forget(["t"])
    client.served.forget(["t"])
    assert client.served.route("t", None) is None
    client.ask("t")
    assert client.serve("t").generation > before


# --- views -------------------------------------------------------------------------------------------------


def test_a_view_is_made_once_and_thrown_away_with_its_route(client: Client) -> None:
    table = client.table
    table.register("a", "t", "u")
    client.ask("t", "u")
    views = {topic: client.served.view(topic) for topic in ("t", "u")}
    assert client.served.views == views
    client.take(table.write("a", ["t"]))
    assert client.served.views == {}
    assert client.served.view("u") is None


def test_forgetting_a_topic_leaves_nothing_of_it(client: Client) -> None:
    client.table.register("a", "t", "u")
    client.ask("t", "u")
    for topic in ("t", "u"):
        client.served.view(topic)
        client.serve(topic)
    client.cache.forget(["t"])
    client.served.forget(["t"])
    assert client.served.views.keys() == client.served.routes.keys() == {"u"}
    assert client.served._turns.keys() == client.served._generations.keys() == {"u"}


def test_a_copy_of_the_process_takes_turns_of_its_own(client: Client) -> None:
    client.table.register("a", "t")
    client.ask("t")
    view = client.served.view("t")
    client.serve("t")
    client.served.start_anew()
    assert (client.served.views, client.served.routes) == ({}, {})
    again = client.served.view("t")
    assert view is not None
    assert again is not None
    assert again.turns is not view.turns
    assert client.serve("t") == client.table.route("t")


# --- message groups ----------------------------------------------------------------------------------------


def ring_in_use(client: Client) -> QueueRing:
    """Return the ring of topic t once the queue of a message group was chosen."""
    view = client.served.view("t")
    assert view is not None
    view.pick_for("order-1", QUIET, NOBODY)
    assert view._ring is not None
    return view._ring


def test_the_places_of_queues_outlive_a_route(client: Client) -> None:
    for name in ("a", "b"):
        client.table.register(name, "t")
    client.ask("t")
    places = ring_in_use(client).places.points
    client.take(client.table.unregister("b"))
    assert client.served.view("t") is not None
    client.take(client.table.come_up("b"))
    assert client.queues("t") == {"a": 4, "b": 4}
    assert ring_in_use(client).places.points is places


@pytest.mark.parametrize("how", ["deleted", "forgotten"])
def test_the_ring_of_a_topic_goes_with_it(client: Client, how: str) -> None:
    client.table.register("a", "t")
    client.ask("t")
    places = ring_in_use(client).places.points
    if how == "deleted":
        client.take(client.table.delete("t"))
        client.take(client.table.write("a", ["t"]))
    else:
        client.cache.forget(["t"])
        client.served.forget(["t"])
    client.ask("t")
    assert ring_in_use(client).places.points is not places


# --- the default topic -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "write", "most", "found"), [(8, 8, 4, 4), (2, 8, 4, 2), (8, 2, 4, 4), (16, 16, 16, 16)]
)
def test_each_broker_lends_no_more_queues_than_are_configured_or_readable(
    table: FakeTable, read: int, write: int, most: int, found: int
) -> None:
    borrower = Client(table, replace(BORROWING, default_topic_queues=most))
    table.register("d", DEFAULT)
    set_queues(table, DEFAULT, "d", read, write)
    borrower.ask(DEFAULT, "t")
    assert borrower.queues("t") == {"d": found}
    assert borrower.queues(DEFAULT) == {"d": write}


def test_a_topic_whose_brokers_are_gone_borrows_too(borrower: Client) -> None:
    borrower.table.register("d", DEFAULT)
    borrower.table.register("a", "t")
    borrower.ask(DEFAULT, "t")
    assert borrower.queues("t") == {"a": 4}
    borrower.take(borrower.table.unregister("a"))
    assert borrower.queues("t") == {"d": 4}


def test_the_topics_own_brokers_take_over_when_it_is_created(borrower: Client) -> None:
    borrower.table.register("d", DEFAULT)
    borrower.ask(DEFAULT, "t")
    borrowed = borrower.served.view("t")
    borrower.take(*borrower.table.register("a", "t"))
    assert borrower.served.views == {}
    assert borrower.queues("t") == {"a": 4}
    own = borrower.served.view("t")
    assert borrowed is not None
    assert own is not None
    assert own.turns is borrowed.turns


def test_a_change_of_the_default_topic_reaches_all_who_borrow(borrower: Client) -> None:
    table = borrower.table
    table.register("d", DEFAULT)
    table.register("a", "own")
    borrower.ask(DEFAULT, "t", "u", "own")
    for _ in range(3):  # who borrowed once, borrows again, and hears of the next change too
        for topic in ("t", "u"):
            assert borrower.queues(topic) == {"d": 4}
        own = borrower.served.view("own")
        borrower.take(*table.register("e", DEFAULT))
        assert borrower.served.views == {"own": own}
        for topic in ("t", "u"):
            assert borrower.queues(topic) == {"d": 4, "e": 4}
        borrower.take(table.unregister("e"))


# --- the default topic, as a client uses it ----------------------------------------------------------------


@pytest.fixture
def core(table: FakeTable) -> Core:
    return Core(table, default_topic=DEFAULT, refresh_s=CONFIG.refresh_s).begin()


def learn(core: Core, *topics: str, now: float = 0.0) -> None:
    """Do what a caller does who needs topics, and then what the follower does."""
    core.ask(*topics, now=now)
    core.look(now)


def brokers(core: Core, topic: str) -> set[str]:
    view = core.view(topic)
    return set() if view is None else {queue.broker_name for queue in view.queues}


def test_the_default_topic_is_read_although_nobody_asks_for_it(core: Core) -> None:
    core.table.register("d", DEFAULT)
    learn(core, "t")
    assert brokers(core, "t") == {"d"}


def test_a_topic_that_was_never_asked_for_does_not_borrow(core: Core) -> None:
    core.table.register("d", DEFAULT)
    core.table.register("a", "t")
    learn(core, DEFAULT)
    assert core.view("t") is None
    learn(core, "t")
    assert brokers(core, "t") == {"a"}


def test_a_topic_that_was_forgotten_does_not_borrow_until_it_is_asked_for(core: Core) -> None:
    core.table.register("d", DEFAULT)
    core.table.register("a", "t")
    learn(core, DEFAULT, "t")
    core.forget(["t"])
    assert core.view("t") is None


def test_a_borrower_whose_topic_was_created_while_changes_were_lost_is_served_by_its_own_brokers(
    core: Core,
) -> None:
    core.table.register("d", DEFAULT)
    learn(core, DEFAULT, "t")
    assert brokers(core, "t") == {"d"}
    core.table.register("a", "t")
    core.hear(lost=True, now=1.0)
    core.follower.found_place(PLACE, 1.0)
    now = 1.0 + core.config.refresh_s
    core.look(now)
    assert core.views.keys() <= {DEFAULT}
    assert brokers(core, "t") == {"a"}


# --- how old a route is ------------------------------------------------------------------------------------


def test_a_route_is_as_old_as_the_last_answer(core: Core) -> None:
    core.table.register("a", "t")
    learn(core, "t")
    for now in (0.0, 1.0, 2.0):
        core.look(now)
        route = core.route("t")
        assert route is not None
        assert route.as_of == now


def test_a_route_that_is_held_back_is_as_old_as_its_last_confirmation(core: Core) -> None:
    for name in ("a", "b"):
        core.table.register(name, "t")
    learn(core, "t")
    core.table.lose_everything()
    core.hear(lost=True, now=600.0)
    core.follower.found_place("0-0", 600.0)
    for now in (601.0, 602.0, 610.0):
        core.look(now)
        assert core.health(now).held == ("a", "b", "t")
        route = core.route("t")
        assert route is not None
        assert route.as_of == 0.0
