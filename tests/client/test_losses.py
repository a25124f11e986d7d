"""Which losses are believed: the guard, the feed's word, a second look, an operator's word."""

from __future__ import annotations

from typing import Final

import pytest

from sharedroutes.client.health import Belief, HeldNames, Losses

HOLD_S: Final = 30.0


@pytest.fixture
def kept() -> HeldNames:
    return HeldNames()


@pytest.fixture
def losses() -> Losses:
    return Losses(HOLD_S)


# --- what one kind of names is kept for ---------------------------------------------------------------------


def test_a_loss_that_nobody_told_of_is_doubted_by_one_answer_and_believed_by_a_later_one(
    kept: HeldNames,
) -> None:
    assert kept.keeps("a", {0}, "doubt", 7)
    kept.hold("a", {0}, 7, 0.0)
    assert kept.keeps("a", {0}, "doubt", 8), "the stream was not read"
    kept.stream_was_read(8)
    assert not kept.keeps("a", {0}, "doubt", 9)
    assert kept.keeps("b", {0}, "doubt", 9)


def test_a_read_of_the_stream_that_began_before_an_answer_says_nothing_of_what_it_lacked(
    kept: HeldNames,
) -> None:
    kept.hold("a", {0}, 7, 0.0)
    kept.stream_was_read(7)
    assert kept.keeps("a", {0}, "doubt", 8)
    awaits = [kept.awaits_stream]
    kept.stream_was_read(9)
    awaits += [kept.awaits_stream]
    assert awaits == [True, False]
    assert kept.keeps("a", {0}, "doubt", 8), "the request was made before the read"
    assert not kept.keeps("a", {0}, "doubt", 10)


def test_the_end_of_one_replica_that_was_announced_is_not_that_of_another(kept: HeldNames) -> None:
    kept.announced("a", 1)
    assert not kept.keeps("a", {1}, "doubt", 7)
    assert kept.keeps("a", {0, 1}, "doubt", 7)
    kept.revoked("a", 1)
    assert kept.keeps("a", {1}, "doubt", 7)


def test_a_loss_that_is_held_again_was_doubted_the_first_time(kept: HeldNames) -> None:
    kept.hold("a", {0}, 7, 0.0)
    kept.stream_was_read(8)
    kept.hold("a", {0}, 9, 0.0)
    assert not kept.keeps("a", {0}, "doubt", 9)


def test_when_an_answer_has_decided_the_next_loss_is_judged_anew(kept: HeldNames) -> None:
    kept.hold("a", {0}, 7, 0.0)
    kept.stream_was_read(8)
    kept.announced("b", 0)
    for name in ("a", "b", "never mentioned"):
        kept.settle(name)
        assert kept.keeps(name, {0}, "doubt", 9)


def test_what_nobody_uses_is_not_held_and_leaves_nothing(kept: HeldNames) -> None:
    kept.announced("a", 0)
    kept.hold("a", {0}, 7, 0.0)
    kept.hold("b", {0}, 7, 0.0)
    kept.settle("a")
    kept.settle("never mentioned")
    assert {*kept.held} == {"b"}
    assert kept.keeps("a", {0}, "doubt", 8)


# --- how an end is called -----------------------------------------------------------------------------------


@pytest.fixture
def held(losses: Losses) -> Losses:
    losses.brokers.hold("a", {0}, 1, 0.0)
    losses.topics.hold("t", {0}, 1, 0.0)
    return losses


def ending(losses: Losses, *believed: str) -> str:
    """Return how it ends if these losses are believed, and all else came back."""
    for kept, name in ((losses.brokers, "a"), (losses.topics, "t")):
        (kept.believe if name in believed else kept.settle)(name)
    how = losses.how_it_ended()
    assert losses.how_it_ended() == "returned", "the next end is judged by itself"
    return how


@pytest.mark.parametrize("believed", ["a", "t", "at"])
def test_an_end_is_called_by_what_brought_it(held: Losses, believed: str) -> None:
    assert beliefs(held, 1, number=2) == ["doubt"]
    assert ending(held, *believed) == "confirmed"


def test_the_time_of_the_guard_ends_a_hold(held: Losses) -> None:
    held.changes_lost(0.0)
    assert beliefs(held, 1, now=HOLD_S) == ["doubt"]
    assert ending(held, "a") == "time"


@pytest.mark.parametrize("guarded", [False, True])
def test_an_operators_word_ends_a_hold_with_and_without_a_guard(held: Losses, *, guarded: bool) -> None:
    held.accept(1)
    if guarded:
        held.changes_lost(0.0)
    assert beliefs(held, 4, number=2) == ["believe"]
    assert ending(held, "a", "t") == "accepted"


def test_what_came_back_has_returned_whatever_was_believed(held: Losses) -> None:
    held.accept(1)
    beliefs(held, 4, number=2)
    held.brokers.believe("another")  # which was not held
    assert ending(held) == "returned"


# --- both kinds together ------------------------------------------------------------------------------------


def beliefs(losses: Losses, *lost: int, known: int = 4, now: float = 0.0, number: int = 1) -> list[Belief]:
    return [losses.belief(number, known, count, now) for count in lost]


def test_what_is_held_back_is_told_of_both_kinds(losses: Losses) -> None:
    assert losses.held == set()
    losses.brokers.hold("a", {0}, 1, 0.0)
    assert losses.any_held
    losses.topics.hold("t", {0}, 1, 0.0)
    assert losses.held == {"a", "t"}


# --- the guard ----------------------------------------------------------------------------------------------


def holds(losses: Losses, known: int, lost: int, now: float) -> bool:
    return losses.belief(1, known, lost, now) == "hold"


@pytest.mark.parametrize(
    ("known", "lost", "held"),
    [(0, 0, False), (1, 0, False), (1, 1, True), (2, 1, False), (2, 2, True), (10, 5, False), (10, 6, True)],
)
def test_more_than_the_share_is_held_back(losses: Losses, known: int, lost: int, *, held: bool) -> None:
    assert holds(losses, known, lost, now=1.0) == held


def test_it_lets_go_when_the_time_is_over(losses: Losses) -> None:
    assert holds(losses, 2, 2, now=100.0)
    assert holds(losses, 2, 2, now=129.9)
    assert not holds(losses, 2, 2, now=130.0)


@pytest.mark.parametrize(
    ("lost_at", "held", "until"),
    [
        ((0.0,), "", 30.0),
        ((0.0, 29.0), "", 59.0),
        ((0.0, 29.0), "a", 30.0),
        ((0.0, 31.0), "a", 61.0),
    ],
    ids=repr,
)
def test_after_lost_changes_the_smallest_loss_is_held_back_for_the_time_and_no_longer(
    losses: Losses, lost_at: tuple[float, ...], held: str, until: float
) -> None:
    for now in lost_at:
        losses.changes_lost(now)
        if held:
            losses.brokers.hold(held, {0}, 1, now)
    assert holds(losses, 100, 1, now=until - 0.1)
    assert not holds(losses, 100, 1, now=until)


def test_disarmed_it_believes_small_losses_and_holds_the_next_mass_loss(losses: Losses) -> None:
    losses.changes_lost(0.0)
    losses.all_read(1)
    assert not holds(losses, 10, 1, now=1.0)
    assert holds(losses, 10, 9, now=2.0)
    assert holds(losses, 10, 9, now=31.9)


def test_a_mass_loss_after_one_that_was_believed_is_held_back_anew(losses: Losses) -> None:
    assert [holds(losses, 1, 1, now=now) for now in (0.0, 30.0, 31.0)] == [True, False, True]


def test_no_time_to_hold_means_no_guard() -> None:
    losses = Losses(0.0)
    losses.changes_lost(1.0)
    assert not holds(losses, 10, 10, now=1.0)
