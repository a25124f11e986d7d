"""Who waits for routes to change: what is kept for them, and what they are told of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from sharedroutes.client import RouteChange
from sharedroutes.client.changes import Changes, Watch, Watches
from sharedroutes.registry import Change
from tests.client.fake_table import FakeTable
from tests.client.heard import PLACE, Core
from tests.support import PATIENCE_S


def taken(watch: Watch) -> list[str]:
    """Return all that a watch was told and nobody has taken."""
    return [change.topic for change in iter(watch.take, None)]


def watch(topics: list[str] | None, wake: Callable[[], None], watches: Watches | None = None) -> Watch:
    return Watch(watches or Watches(), lambda _: None, topics, wake)


class Waker:
    """Counts how often somebody was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def __call__(self) -> None:
        self.woken += 1


@pytest.fixture
def waker() -> Waker:
    return Waker()


# --- one who waits -----------------------------------------------------------------------------------------


def test_a_topic_that_changed_is_told_and_wakes(waker: Waker) -> None:
    one = watch(["t"], waker)
    one.tell(["t"])
    assert waker.woken == 1
    assert taken(one) == ["t"]
    assert taken(one) == []


@pytest.mark.parametrize(
    ("topics", "told", "heard"),
    [(["t"], ["u"], []), (["t"], [], []), ([], ["t"], []), (None, ["u", "t"], ["u", "t"])],
)
def test_only_the_topics_that_are_watched_are_told_and_wake(
    waker: Waker, topics: list[str] | None, told: list[str], heard: list[str]
) -> None:
    one = watch(topics, waker)
    one.tell(told)
    assert waker.woken == bool(heard)
    assert taken(one) == heard


def test_a_topic_that_changes_often_is_told_once_in_the_place_of_its_first_change(waker: Waker) -> None:
    one = watch(None, waker)
    for topics in (["t"], ["u", "t"], ["t"], ["v"]):
        one.tell(topics)
    assert taken(one) == ["t", "u", "v"]


def test_what_changes_after_a_look_is_told_at_the_next(waker: Waker) -> None:
    one = watch(None, waker)
    one.tell(["t"])
    taken(one)
    one.tell(["t"])
    assert taken(one) == ["t"]


def test_who_wants_to_know_no_more_is_woken(waker: Waker) -> None:
    one = watch(None, waker)
    assert not one.over
    one.close()
    assert (one.over, waker.woken) == (True, 1)


def test_nothing_is_lost_between_threads_that_tell_and_one_that_takes() -> None:
    topics = [f"t{number}" for number in range(4_000)]
    parts = [topics[number::4] for number in range(4)]
    wake = threading.Event()
    one = watch(None, wake.set)

    def tell(part: list[str]) -> None:
        for topic in part:
            one.tell([topic])

    tellers = [threading.Thread(target=tell, args=(part,)) for part in parts]
    found: list[str] = []
    for teller in tellers:
        teller.start()
    while any(teller.is_alive() for teller in tellers):
        found += taken(one)
    found += taken(one)
    assert sorted(found) == sorted(topics)


# --- all who wait ------------------------------------------------------------------------------------------


def test_each_is_told_what_concerns_it(waker: Waker) -> None:
    watches = Watches()
    everything, some = watch(None, waker, watches), watch(["t"], waker, watches)
    watches.tell(["t", "u"])
    assert taken(everything) == ["t", "u"]
    assert taken(some) == ["t"]


def test_who_was_removed_is_not_told(waker: Waker) -> None:
    watches = Watches()
    gone, left = watch(None, waker, watches), watch(None, waker, watches)
    gone.close()
    gone.close()
    watches.tell(["t"])
    assert (taken(gone), taken(left)) == ([], ["t"])


def test_closing_lets_everybody_go(waker: Waker) -> None:
    watches = Watches()
    several = [watch(None, waker, watches), watch(["t"], waker, watches)]
    watches.close()
    assert [one.over for one in several] == [True, True]
    assert waker.woken == 2


def test_who_comes_after_the_end_is_let_go_at_once(waker: Waker) -> None:
    watches = Watches()
    watches.close()
    late = watch(None, waker, watches)
    assert late.over


# --- what a watcher of a client sees -----------------------------------------------------------------------


def learn(core: Core, *topics: str) -> None:
    core.ask(*topics)
    core.look()


def take(core: Core, *changes: Change) -> None:
    core.hear(*changes)
    core.look()


@pytest.fixture
def core(core: Core) -> Core:
    """Return a core that knows three topics, each of one broker."""
    for name, topic in (("a", "t"), ("b", "u"), ("c", "v")):
        core.table.register(name, topic)
    learn(core, "t", "u", "v")
    return core


def changes_of(core: Core, topics: list[str] | None) -> Changes:
    """Return what is now and then each change, of topics that are known."""
    return Changes(core.known.watches, core.route, topics, lambda: None)


def seen(changes: Iterator[RouteChange], count: int) -> list[tuple[str, set[str]]]:
    """Return the next topics, and who holds them."""
    return [
        (change.topic, {row.broker_name for row in change.route.queue_datas} if change.route else set())
        for change in islice(changes, count)
    ]


def test_a_change_that_was_seen_before_its_turn_is_not_seen_again(core: Core) -> None:
    changes = changes_of(core, ["t", "u"])
    assert seen(changes, 1) == [("t", {"a"})]
    take(core, *core.table.register("d", "u"))
    assert seen(changes, 1) == [("u", {"b", "d"})]
    take(core, *core.table.register("e", "t"))
    assert seen(changes, 1) == [("t", {"a", "e"})]


def test_a_watched_topic_that_was_created_while_changes_were_lost_is_seen(core: Core) -> None:
    learn(core, "new")
    changes = changes_of(core, ["new"])
    assert seen(changes, 1) == [("new", set())]
    core.table.register("d", "new")
    core.hear(now=1.0, lost=True)
    core.follower.found_place(PLACE, 1.0)
    core.look(1.0 + core.config.refresh_s)
    core.known.watches.close()
    route = core.route("new")
    assert route is not None
    assert [row.broker_name for row in route.queue_datas] == ["d"]


def test_a_watched_topic_that_was_created_after_the_client_found_its_place_is_seen(table: FakeTable) -> None:
    core = Core(table)
    core.ask("new")  # before the follower has had its turn
    changes = changes_of(core, ["new"])
    assert seen(changes, 1) == [("new", set())]
    core.follower.found_place(PLACE, 0.0)
    for created in ([], table.register("d", "new")):
        take(core, *created)
    assert core.route("new") == table.route("new")


def test_closing_ends_a_watch_even_between_two_of_its_topics(core: Core) -> None:
    changes = changes_of(core, ["t", "u"])
    seen(changes, 1)
    core.known.watches.close()
    assert seen(changes, 1) == []


def test_a_watch_that_begins_after_the_end_ends_at_once(core: Core) -> None:
    before = changes_of(core, ["t"])
    core.known.watches.close()
    for changes in (before, changes_of(core, ["t"])):
        found: list[RouteChange] = []
        reader = threading.Thread(target=found.extend, args=(changes,), daemon=True)
        reader.start()
        reader.join(PATIENCE_S)
        assert not reader.is_alive()
        assert found == []


def test_a_watch_that_is_closed_ends_and_leaves_nothing(core: Core) -> None:
    with changes_of(core, ["t", "u"]) as changes:
        assert seen(changes, 1) == [("t", {"a"})]
        changes.close()
        assert seen(changes, 1) == []
    assert len(core.known.watches._all) == 0


def test_a_watcher_that_goes_away_leaves_nothing(core: Core) -> None:
    changes = changes_of(core, ["t"])
    seen(changes, 1)
    assert len(core.known.watches._all) == 1
    del changes
    assert len(core.known.watches._all) == 0


def test_a_watcher_may_be_collected_while_another_is_added(core: Core) -> None:
    forgotten = [changes_of(core, None)]

    def collect() -> None:
        with core.known.watches._lock:  # where the collector of garbage may happen to run
            forgotten.clear()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_watches_may_come_and_go_while_others_are_told(waker: Waker) -> None:
    watches, over = Watches(), threading.Event()
    faults: list[Exception] = []

    def come_and_go() -> None:
        while not over.is_set():
            for one in [watch(None, waker, watches) for _ in range(20)]:
                one.close()

    def tell() -> None:
        try:
            for _ in range(20_000):
                watches.tell(["t"])
        except RuntimeError as error:
            faults.append(error)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    tell()
    over.set()
    thread.join()
    assert faults == []
