"""The guard that holds a mass loss back."""

from __future__ import annotations

import pytest

from sharedroutes.client.losses import MassLossGuard

HOLD_S = 30.0


@pytest.mark.parametrize(
    ("known", "lost", "held"),
    [(0, 0, False), (1, 0, False), (1, 1, True), (2, 1, False), (2, 2, True), (10, 5, False), (10, 6, True)],
)
def test_more_than_the_share_is_held_back(known: int, lost: int, *, held: bool) -> None:
    assert MassLossGuard(0.5, HOLD_S).holds(known, lost, now=1.0) == held


@pytest.mark.parametrize(("share", "lost", "held"), [(0.0, 1, True), (0.0, 0, False), (1.0, 10, False)])
def test_the_share_is_a_setting(share: float, lost: int, *, held: bool) -> None:
    assert MassLossGuard(share, HOLD_S).holds(10, lost, now=1.0) == held


def test_it_lets_go_when_the_time_is_over() -> None:
    guard = MassLossGuard(0.5, HOLD_S)
    assert guard.holds(2, 2, now=100.0)
    assert guard.holds(2, 2, now=129.9)
    assert not guard.holds(2, 2, now=130.0)


def test_while_it_is_armed_the_smallest_loss_is_held_back() -> None:
    guard = MassLossGuard(0.5, HOLD_S)
    guard.arm(now=0.0)
    assert guard.holds(100, 1, now=29.9)
    assert not guard.holds(100, 1, now=30.0)


def test_arming_again_does_not_extend_the_time() -> None:
    guard = MassLossGuard(0.5, HOLD_S)
    guard.arm(now=0.0)
    guard.arm(now=29.0)
    assert not guard.holds(2, 1, now=30.0)


def test_disarmed_it_believes_small_losses_and_holds_the_next_mass_loss() -> None:
    guard = MassLossGuard(0.5, HOLD_S)
    guard.arm(now=0.0)
    guard.disarm()
    assert not guard.holds(10, 1, now=1.0)
    assert guard.holds(10, 9, now=2.0)
    assert guard.holds(10, 9, now=31.9)


def test_a_store_that_loses_its_data_after_the_time_was_over_is_held_back_anew() -> None:
    guard = MassLossGuard(0.5, HOLD_S)
    guard.arm(now=0.0)
    guard.arm(now=31.0)
    assert guard.holds(10, 1, now=60.9)
    assert not guard.holds(10, 1, now=61.0)


def test_a_mass_loss_after_one_that_was_believed_is_held_back_anew() -> None:
    guard = MassLossGuard(0.5, HOLD_S)
    assert guard.holds(1, 1, now=0.0)
    assert not guard.holds(1, 1, now=30.0)
    assert guard.holds(1, 1, now=31.0)


def test_no_time_to_hold_means_no_guard() -> None:
    guard = MassLossGuard(0.5, 0.0)
    guard.arm(now=1.0)
    assert not guard.holds(10, 10, now=1.0)
