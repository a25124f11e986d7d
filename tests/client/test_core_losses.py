"""What a client tells of losses that it holds back, and of the end of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharedroutes.client.observers.events import (
    Event,
    FeedLost,
    LookupDone,
    LossHeld,
    LossReleased,
    RoutesChanged,
)
from sharedroutes.registry import Change, StoreUnavailable
from sharedroutes.registry.codec import encode_change
from sharedroutes.registry.plans import ORIGIN, ChangePage
from tests.client.fake_table import FakeTable
from tests.client.heard import HOLD_S, PLACE, TAIL_S, Core

NEXT = "1700000000000-2"

# --- losses that are held back ------------------------------------------------------------------------------


def lose_everything(core: Core) -> None:
    """Let the store be restarted empty, and the client find out at TAIL_S."""
    core.table.lose_everything()
    core.hear(lost=True)
    core.follower.found_place("0-0", 0.0)
    core.look(TAIL_S)
    assert core.heard.take() == [
        FeedLost(PLACE),
        LookupDone(2, 2, 0.0),
        LossHeld(("a", "b", "c", "d"), ("t", "u")),
    ]


def test_what_is_held_back_is_told_once_and_that_it_came_back_once(known: Core) -> None:
    lose_everything(known)
    known.look(2 * TAIL_S)
    assert known.heard.take() == []
    for name, topic in (("a", "t"), ("b", "u"), ("c", "u")):
        known.hear(*known.table.register(name, topic), now=3.0)
    known.look(3.0)
    assert known.heard.all(LossReleased) == []
    known.hear(*known.table.register("d", "u"), now=4.0)
    known.look(4.0)
    known.look(5.0)
    assert known.heard.all(LossReleased) == [LossReleased("returned")]
    assert known.heard.all(LossHeld) == []


def test_the_end_of_a_hold_that_ran_out_of_time_is_told(known: Core) -> None:
    lose_everything(known)
    over = TAIL_S + HOLD_S
    known.known.cache.refresh_at = over
    known.look(over)
    known.known.cache.refresh_at = over + TAIL_S
    known.look(over + TAIL_S)
    assert known.heard.all(LossReleased) == [LossReleased("time")]
    assert [{*event.topics} for event in known.heard.all(RoutesChanged)] == [{"t", "u"}]


def test_a_broker_is_held_back_for_the_whole_time_when_the_store_loses_its_data_again(known: Core) -> None:
    known.hear(lost=True)
    known.follower.found_place(PLACE, 0.0)  # and nothing is lacking; all is read later
    known.known.cache.refresh_at = 2 * HOLD_S
    known.look(TAIL_S)
    known.table.expire("a")
    known.hear(lost=True, now=HOLD_S - TAIL_S)
    known.follower.found_place(PLACE, HOLD_S - TAIL_S)
    known.known.cache.refresh_at = 2 * HOLD_S
    for now in (HOLD_S - TAIL_S, HOLD_S, HOLD_S + TAIL_S, 2 * HOLD_S - 2 * TAIL_S):
        known.look(now)
    assert known.health(0.0).held_brokers == ("a",)
    assert known.heard.all(LossReleased) == []


def test_who_withdrew_is_not_held_back_also_if_changes_before_that_were_lost(known: Core) -> None:
    withdrawn, ended = known.table.unregister("b"), known.table.expire("c")
    known.hear(withdrawn, ended, lost=True)
    assert [event.topics for event in known.heard.all(RoutesChanged)] == [("u",)]
    known.follower.found_place("0-0", 0.0)
    known.look(TAIL_S)
    assert known.health(TAIL_S).held_brokers == ("c",)
    route = known.route("u")
    assert route is not None
    assert {data.broker_name for data in route.broker_datas} == {"c", "d"}


@pytest.mark.parametrize("noticed", [True, False])
def test_what_a_caller_finds_lacking_is_held_back_until_the_stream_says_whether_changes_were_lost(
    known: Core, *, noticed: bool
) -> None:
    before = known.route("u")
    if noticed:
        known.pause_s(2.0)
    known.table.expire("b")  # the store came back as it was before broker b
    del known.table.rows["u"]["c"]
    known.ask("other", now=2.0)
    known.answer(known.known.cache.request(("u",)), 2.0)
    assert known.tail_due(4.0), "nothing else is read before the stream"
    known.hear(lost=True, now=4.0)
    known.follower.found_place("0-0", 4.0)
    for now in (5.0, 6.0, HOLD_S):
        known.look(now)
    after = known.route("u")
    assert before is not None
    assert after is not None
    assert (after.queue_datas, after.broker_datas) == (before.queue_datas, before.broker_datas)
    assert known.health(HOLD_S).held == ("b", "u")


def test_what_a_caller_finds_lacking_makes_nothing_look_old(known: Core) -> None:
    known.known.cache.refresh_at = 2.0
    everything = known.known.cache.due(2.0)
    known.table.expire("b")
    known.ask("other", now=2.0)
    known.answer(everything, 2.0)
    for now in (3.0, 4.0, 5.0):
        known.hear(now=now)
        known.look(now)
    assert known.health(5.0).held == ()
    assert known.known.freshness.confirmed_at == 5.0


def test_what_rings_while_a_loss_is_in_doubt_is_taken_in_at_once(known: Core) -> None:
    known.table.expire("b")
    known.ask("other", now=2.0)
    withdrawn = known.table.unregister("c")
    known.follower.heard(f"{PLACE} {NEXT} ".encode() + encode_change(withdrawn), 2.0)
    route = known.route("u")
    assert route is not None
    assert "c" not in {data.broker_name for data in route.broker_datas}


def test_a_second_look_that_lacks_more_is_a_first_one_for_that(known: Core) -> None:
    row = known.table.rows["u"].pop("b")
    known.answer(known.known.cache.request(("u",)), 2.0)
    known.look(3.0)  # reads the stream, and then u, of which b is gone
    assert known.health(3.0).held == ()
    known.table.rows["u"]["b"] = row
    known.answer(known.known.cache.request(("u",)), 4.0)
    del known.table.rows["u"]["b"]
    known.answer(known.known.cache.request(("u",)), 4.0)
    assert known.tail_due(4.0)
    known.hear(now=4.0)
    del known.table.rows["u"]  # the store comes back with less
    known.answer(known.known.cache.due(4.0), 4.0)
    route = known.route("u")
    assert route is not None
    assert {row.broker_name for row in route.queue_datas} == {"b", "c", "d"}


def test_a_row_that_is_held_back_changes_nothing_when_it_goes_and_when_it_comes_back(known: Core) -> None:
    known.hear(lost=True)
    known.follower.found_place("0-0", 0.0)
    known.heard.take()
    row = known.table.rows["u"].pop("b")
    known.look(TAIL_S)
    assert known.health(TAIL_S).held_topics == ("u",)
    known.table.rows["u"]["b"] = row
    known.known.cache.refresh_at = 2 * TAIL_S
    known.look(2 * TAIL_S)
    assert known.health(2 * TAIL_S).held_topics == ()
    assert known.heard.all(RoutesChanged) == []


def test_an_operators_word_is_told_when_it_takes_effect(known: Core) -> None:
    lose_everything(known)
    known.accept(2.0)
    assert known.heard.take() == []
    known.look(2.0)
    changed, *others = known.heard.take()
    assert isinstance(changed, RoutesChanged)
    assert {*changed.topics} == {"t", "u"}
    assert others == [LookupDone(2, 2, 0.0), LossReleased("accepted")]
    known.look(3.0)
    assert known.heard.take() == []


@pytest.mark.parametrize("how", ["confirmed", "returned"])
def test_a_doubted_loss_is_told_and_what_the_second_look_says(known: Core, how: str) -> None:
    lease = known.table.leases["a", 0]
    known.table.expire("a")
    known.look(TAIL_S)
    assert known.heard.take() == [LossHeld(("a",), ())]
    if how == "returned":
        known.table.leases["a", 0] = lease
    known.look(2 * TAIL_S)
    expected: list[Event] = [] if how == "returned" else [RoutesChanged(("t",))]
    released = [event for event in known.heard.events if isinstance(event, LossReleased)]
    assert [event.how for event in released] == [how]
    assert [event for event in known.heard.events if event not in released] == expected


def test_a_part_that_was_held_and_is_believed_lost_has_not_returned(known: Core) -> None:
    known.hear(known.table.come_up("a", 1))
    known.look()
    known.hear(lost=True)
    known.follower.found_place("0-0", 0.0)
    known.table.expire("a", 1)
    known.look(TAIL_S)
    assert known.heard.all(LossHeld) == [LossHeld(("a",), ())]
    known.known.cache.refresh_at = TAIL_S + HOLD_S
    known.look(TAIL_S + HOLD_S)
    assert known.health(0.0).held == ()
    assert known.heard.all(LossReleased) == [LossReleased("time")]


def test_a_held_broker_that_says_itself_that_it_ends_ends_the_hold(known: Core) -> None:
    known.table.expire("a")
    known.look(TAIL_S)
    known.hear(known.table.unregister("a"), now=TAIL_S)
    known.look(TAIL_S)
    known.look(2 * TAIL_S)
    assert known.health(0.0).held == ()
    assert known.heard.all(LossHeld) == [LossHeld(("a",), ())]
    assert known.heard.all(LossReleased) == [LossReleased("confirmed")]


def test_a_held_topic_that_nobody_wants_any_more_ends_the_hold(known: Core) -> None:
    del known.table.rows["t"]
    known.known.cache.refresh_at = TAIL_S
    request = known.known.cache.due(TAIL_S)
    assert request is not None
    known.known.offer(request, known.table.answer(request), TAIL_S)
    assert known.heard.all(LossHeld) == [LossHeld((), ("t",))]
    known.forget(["t"])
    known.look(2 * TAIL_S)
    assert known.health(0.0).held == ()
    assert len(known.heard.all(LossReleased)) == 1


# --- how long at most ---------------------------------------------------------------------------------------


def when_let_go(core: Core, now: float) -> dict[str, float]:
    """Let time pass until nothing is held back; return by name when it was no longer."""
    let_go: dict[str, float] = {}
    while held := core.health(now).held:
        now += TAIL_S / 4
        core.look(now)
        let_go |= dict.fromkeys({*held} - {*core.health(now).held}, now)
    return let_go


def test_a_mass_loss_is_held_back_no_longer_than_health_says(known: Core) -> None:
    lose_everything(known)
    losses = known.health(TAIL_S).held_losses
    assert {loss.why for loss in losses} == {"changes lost"}
    assert [loss.kind for loss in losses] == ["broker"] * 4 + ["topic"] * 2
    let_go = when_let_go(known, TAIL_S)
    assert all(HOLD_S <= let_go[loss.name] <= TAIL_S + loss.left_s + TAIL_S / 4 for loss in losses)
    assert all(loss.left_s <= HOLD_S + TAIL_S for loss in losses if loss.kind == "broker")


def test_the_only_broker_in_use_is_held_back_as_a_mass_loss(table: FakeTable) -> None:
    core = Core(table).begin()
    table.register("a", "t")
    core.ask("t")
    core.look()
    core.hear(table.expire("a"), now=1.0)  # although the sweep announces it: one of one is more than half
    core.look(1.0)
    (loss,) = core.health(3.0).held_losses
    assert (loss.kind, loss.name, loss.why, loss.held_s) == ("broker", "a", "mass loss", 2.0)
    assert core.route("t") is not None
    (let_go,) = when_let_go(core, 3.0).values()
    assert 1.0 + HOLD_S <= let_go <= 3.0 + loss.left_s + TAIL_S / 4
    assert core.route("t") is None


def test_a_broker_whose_end_nobody_announced_is_held_back_until_the_next_look(known: Core) -> None:
    known.table.expire("a")  # nobody announces it
    known.look(TAIL_S)
    (loss,) = known.health(TAIL_S).held_losses
    assert (loss.name, loss.why, loss.left_s <= TAIL_S) == ("a", "not announced", True)
    let_go = when_let_go(known, TAIL_S)
    assert let_go["a"] <= TAIL_S + loss.left_s + TAIL_S / 4


def test_what_an_operator_accepts_is_not_held_back_for_long(known: Core) -> None:
    lose_everything(known)
    known.accept(2.0)
    assert all(loss.left_s <= TAIL_S for loss in known.health(2.0).held_losses)


def trim_to_nothing(core: Core) -> None:
    """Let the stream lose all its entries, and the table nothing; all is read again at TAIL_S."""
    core.hear(lost=True)
    core.follower.found_place(ORIGIN, 0.0)
    core.known.cache.refresh_at = TAIL_S
    core.look(TAIL_S)
    core.heard.take()


def test_the_end_of_a_broker_that_is_the_first_entry_of_a_stream_is_no_loss(known: Core) -> None:
    trim_to_nothing(known)
    known.hear(known.table.expire("b"), now=2.0)
    for now in (3.0, 4.0):
        known.look(now)
    assert known.heard.all(FeedLost) == []
    assert known.health(4.0).held_brokers == ()


def test_a_client_confirms_nothing_when_a_stream_without_entries_may_have_told_of_more(known: Core) -> None:
    trim_to_nothing(known)
    known.follower.failed(StoreUnavailable("away"), 2.0)
    known.follower.found_page(ChangePage((), ORIGIN, lost=False, complete=True), 3.0)
    confirmed = []
    for now in (3.0, 3.5):
        known.look(now)
        route = known.route("t")
        confirmed.append(route and route.as_of)
    assert confirmed == [TAIL_S, 3.5]


@pytest.mark.parametrize("by", ["doorbell", "tail", "topics"])
def test_a_store_that_is_emptied_and_filled_again_while_its_stream_had_no_entry_has_lost_changes(
    known: Core, by: str
) -> None:
    trim_to_nothing(known)
    addresses = dict(known.table.leases)
    known.table.lose_everything()
    back = list[Change]()
    for name in ("b", "c", "d"):
        written, came = known.table.register(name, "u")
        address = known.table.leases[name, 0] = addresses[name, 0]
        back += [*([written] if by == "topics" else []), replace(came, address=address)]
    if by == "doorbell":
        known.follower.heard(f"{ORIGIN} {PLACE} ".encode() + encode_change(back[0]), 2.0)
        assert known.tail_due(2.0)
    known.hear(*back, now=2.0)
    assert known.heard.all(FeedLost) == [FeedLost(ORIGIN)]
    known.follower.found_place(PLACE, 2.0)
    for now in (3.0, 4.0, 5.0):
        known.look(now)
    assert known.health(5.0).held_brokers == ("a",)
    assert known.route("t") is not None
