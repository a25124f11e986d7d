"""What a client tells of losses that it holds back, and of the end of that."""

from __future__ import annotations

import pytest

from sharedroutes.client.core import ClientCore
from sharedroutes.client.observers.events import (
    Event,
    FeedLost,
    LookupDone,
    LossHeld,
    LossReleased,
    RoutesChanged,
)
from tests.client.fake_table import FakeTable
from tests.client.heard import HOLD_S, PLACE, TAIL_S, Heard, ask, begun, hear, look

# --- losses that are held back ------------------------------------------------------------------------------


def lose_everything(core: ClientCore, table: FakeTable, heard: Heard) -> None:
    """Let the store be restarted empty, and the client find out at TAIL_S."""
    table.lose_everything()
    hear(core, lost=True)
    core.follower.found_place("0-0", 0.0)
    look(core, table, TAIL_S)
    assert heard.take() == [
        FeedLost(PLACE),
        LookupDone(2, 2, 0.0),
        LossHeld(("a", "b", "c", "d"), ("t", "u")),
    ]


def test_what_is_held_back_is_told_once_and_that_it_came_back_once(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    lose_everything(known, table, heard)
    look(known, table, 2 * TAIL_S)
    assert heard.take() == []
    for name, topic in (("a", "t"), ("b", "u"), ("c", "u")):
        hear(known, *table.register(name, topic), now=3.0)
    look(known, table, 3.0)
    assert heard.all(LossReleased) == []
    hear(known, *table.register("d", "u"), now=4.0)
    look(known, table, 4.0)
    look(known, table, 5.0)
    assert heard.all(LossReleased) == [LossReleased("returned")]
    assert heard.all(LossHeld) == []


def test_the_end_of_a_hold_that_ran_out_of_time_is_told(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    lose_everything(known, table, heard)
    over = TAIL_S + HOLD_S
    known.known.cache.refresh_at = over
    look(known, table, over)
    known.known.cache.refresh_at = over + TAIL_S
    look(known, table, over + TAIL_S)
    assert heard.all(LossReleased) == [LossReleased("time")]
    assert [{*event.topics} for event in heard.all(RoutesChanged)] == [{"t", "u"}]


def test_a_row_that_is_held_back_changes_nothing_when_it_goes_and_when_it_comes_back(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    hear(known, lost=True)
    known.follower.found_place("0-0", 0.0)
    heard.take()
    row = table.rows["u"].pop("b")
    look(known, table, TAIL_S)
    assert known.health(TAIL_S).held_topics == ("u",)
    table.rows["u"]["b"] = row
    known.known.cache.refresh_at = 2 * TAIL_S
    look(known, table, 2 * TAIL_S)
    assert known.health(2 * TAIL_S).held_topics == ()
    assert heard.all(RoutesChanged) == []


def test_an_operators_word_is_told_when_it_takes_effect(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    lose_everything(known, table, heard)
    known.accept(2.0)
    assert heard.take() == []
    look(known, table, 2.0)
    changed, *others = heard.take()
    assert isinstance(changed, RoutesChanged)
    assert {*changed.topics} == {"t", "u"}
    assert others == [LookupDone(2, 2, 0.0), LossReleased("accepted")]
    look(known, table, 3.0)
    assert heard.take() == []


@pytest.mark.parametrize("how", ["confirmed", "returned"])
def test_a_doubted_loss_is_told_and_what_the_second_look_says(
    known: ClientCore, table: FakeTable, heard: Heard, how: str
) -> None:
    lease = table.leases["a", 0]
    table.expire("a")
    look(known, table, TAIL_S)
    assert heard.take() == [LossHeld(("a",), ())]
    if how == "returned":
        table.leases["a", 0] = lease
    look(known, table, 2 * TAIL_S)
    expected: list[Event] = [] if how == "returned" else [RoutesChanged(("t",))]
    released = [event for event in heard.events if isinstance(event, LossReleased)]
    assert [event.how for event in released] == [how]
    assert [event for event in heard.events if event not in released] == expected


def test_a_part_that_was_held_and_is_believed_lost_has_not_returned(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    hear(known, table.come_up("a", 1))
    look(known, table)
    hear(known, lost=True)
    known.follower.found_place("0-0", 0.0)
    table.expire("a", 1)
    look(known, table, TAIL_S)
    assert heard.all(LossHeld) == [LossHeld(("a",), ())]
    known.known.cache.refresh_at = TAIL_S + HOLD_S
    look(known, table, TAIL_S + HOLD_S)
    assert known.health(0.0).held == ()
    assert heard.all(LossReleased) == [LossReleased("time")]


def test_a_held_broker_that_says_itself_that_it_ends_ends_the_hold(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    table.expire("a")
    look(known, table, TAIL_S)
    hear(known, table.unregister("a"), now=TAIL_S)
    look(known, table, TAIL_S)
    look(known, table, 2 * TAIL_S)
    assert known.health(0.0).held == ()
    assert heard.all(LossHeld) == [LossHeld(("a",), ())]
    assert heard.all(LossReleased) == [LossReleased("confirmed")]


def test_a_held_topic_that_nobody_wants_any_more_ends_the_hold(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    del table.rows["t"]
    known.known.cache.refresh_at = TAIL_S
    request = known.known.cache.due(TAIL_S)
    assert request is not None
    known.known.offer(request, table.answer(request), TAIL_S)
    assert heard.all(LossHeld) == [LossHeld((), ("t",))]
    known.forget(["t"])
    look(known, table, 2 * TAIL_S)
    assert known.health(0.0).held == ()
    assert len(heard.all(LossReleased)) == 1


# --- how long at most ---------------------------------------------------------------------------------------


def when_let_go(core: ClientCore, table: FakeTable, now: float) -> dict[str, float]:
    """Let time pass until nothing is held back; return by name when it was no longer."""
    let_go: dict[str, float] = {}
    while held := core.health(now).held:
        now += TAIL_S / 4
        look(core, table, now)
        let_go |= dict.fromkeys({*held} - {*core.health(now).held}, now)
    return let_go


def test_a_mass_loss_is_held_back_no_longer_than_health_says(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    lose_everything(known, table, heard)
    losses = known.health(TAIL_S).held_losses
    assert {loss.why for loss in losses} == {"changes lost"}
    assert [loss.kind for loss in losses] == ["broker"] * 4 + ["topic"] * 2
    let_go = when_let_go(known, table, TAIL_S)
    assert all(HOLD_S <= let_go[loss.name] <= TAIL_S + loss.left_s + TAIL_S / 4 for loss in losses)
    assert all(loss.left_s <= HOLD_S + TAIL_S for loss in losses if loss.kind == "broker")


def test_the_only_broker_in_use_is_held_back_as_a_mass_loss(table: FakeTable) -> None:
    core = begun()
    table.register("a", "t")
    ask(core, table, "t")
    look(core, table)
    hear(core, table.expire("a"), now=1.0)  # although the sweep announces it: one of one is more than half
    look(core, table, 1.0)
    (loss,) = core.health(3.0).held_losses
    assert (loss.kind, loss.name, loss.why, loss.held_s) == ("broker", "a", "mass loss", 2.0)
    assert core.route("t") is not None
    (let_go,) = when_let_go(core, table, 3.0).values()
    assert 1.0 + HOLD_S <= let_go <= 3.0 + loss.left_s + TAIL_S / 4
    assert core.route("t") is None


def test_the_last_broker_of_a_topic_is_held_back_until_the_next_look(
    known: ClientCore, table: FakeTable
) -> None:
    table.expire("a")  # nobody announces it
    look(known, table, TAIL_S)
    (loss,) = known.health(TAIL_S).held_losses
    assert (loss.name, loss.why, loss.left_s <= TAIL_S) == ("a", "last broker", True)
    let_go = when_let_go(known, table, TAIL_S)
    assert let_go["a"] <= TAIL_S + loss.left_s + TAIL_S / 4


def test_what_an_operator_accepts_is_not_held_back_for_long(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    lose_everything(known, table, heard)
    known.accept(2.0)
    assert all(loss.left_s <= TAIL_S for loss in known.health(2.0).held_losses)
