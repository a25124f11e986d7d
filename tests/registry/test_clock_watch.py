"""A server's clock is judged by its progress."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.registry.sweep_policy import CALM_S, JUMP_S, STILL_S, ClockWatch, Look

EPOCH_MS = 1_795_000_000_000
LEASE_MS = 1_000


class Server:
    """A server and the machine that looks at it, each with a clock of its own."""

    def __init__(self) -> None:
        self.watch = ClockWatch()
        self.local_s = 70.0
        self.clock_ms = float(EPOCH_MS)
        self.ttl_ms: float | None = None

    def wait(self, seconds: float, *, speed: float = 1.0, ttl_speed: float | None = None) -> None:
        """Let time go by, on the server at that speed."""
        self.local_s += seconds
        self.clock_ms += seconds * 1000 * speed
        if self.ttl_ms is not None:
            self.ttl_ms -= seconds * 1000 * (speed if ttl_speed is None else ttl_speed)

    def look(self, *, call_s: float = 0.001) -> str | None:
        """Look at the server as the sweeper does, with a renewal in the second half; return the problem."""
        begin_s = self.local_s
        self.wait(call_s / 2)
        before = None if self.ttl_ms is None or self.ttl_ms < 0 else int(self.ttl_ms)
        if before is None or before < LEASE_MS / 2:
            self.ttl_ms = LEASE_MS
        after, clock_ms = int(self.ttl_ms or 0), int(self.clock_ms)
        self.wait(call_s / 2)
        self.watch.look(Look(begin_s, self.local_s, clock_ms, before, after))
        return self.watch.problem

    def run(self, seconds: float, *, every_s: float = 0.6, speed: float = 1.0) -> str | None:
        """Look so often for so long; return the problem."""
        end_s = self.local_s + seconds
        while self.local_s < end_s:
            self.wait(every_s, speed=speed)
            self.look()
        return self.watch.problem


@pytest.fixture
def server() -> Server:
    """Return a server that was looked at for a while, and is in order."""
    server = Server()
    assert server.run(3) is None
    return server


def test_the_first_look_says_nothing() -> None:
    assert Server().look() is None


@pytest.mark.parametrize("speed", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("every_s", [0.02, 0.3, 0.6, 5.0])
def test_a_clock_that_stands_still_or_nearly_is_a_problem(
    server: Server, speed: float, every_s: float
) -> None:
    problem = server.run(3 * max(STILL_S, every_s), every_s=every_s, speed=speed)
    assert problem is not None
    assert "stands still" in problem
    assert "restart the server" in problem


def test_a_clock_that_stands_still_from_the_start_is_a_problem() -> None:
    assert "stands still" in (Server().run(3, speed=0.0) or "")


def test_a_ttl_that_does_not_run_is_a_problem_though_the_clock_goes(server: Server) -> None:
    for _ in range(4):
        server.wait(0.6, ttl_speed=0.0)
        server.look()
    assert "stands still" in (server.watch.problem or "")


def test_a_clock_is_not_judged_before_a_second(server: Server) -> None:
    for _ in range(4):
        server.wait(STILL_S / 5, speed=0.0)
        assert server.look() is None


@pytest.mark.parametrize("by_s", [JUMP_S + 0.1, 60.0, 86_400.0, -JUMP_S - 0.7, -60.0])
def test_a_clock_that_jumped_is_a_problem_at_the_next_look(server: Server, by_s: float) -> None:
    server.clock_ms += by_s * 1000
    server.wait(0.6)
    problem = server.look()
    assert problem is not None
    assert f"jumped by {by_s:+.1f} s" in problem
    assert "NTP" in problem


@pytest.mark.parametrize("by_s", [JUMP_S - 0.1, 1.0, -0.5, -JUMP_S + 0.1])
@pytest.mark.parametrize("every_s", [0.02, 0.6, 5.0])
def test_a_small_step_is_none(server: Server, by_s: float, every_s: float) -> None:
    server.clock_ms += by_s * 1000
    assert server.run(4 * STILL_S, every_s=every_s) is None


@pytest.mark.parametrize(("jump_ms", "speed", "for_s"), [(60_000, 1.0, 0.1), (0, 0.0, 3.0)])
def test_a_problem_is_over_when_the_clock_has_kept_pace_for_a_while(
    server: Server, jump_ms: int, speed: float, for_s: float
) -> None:
    server.clock_ms += jump_ms
    server.run(for_s, speed=speed)
    assert server.watch.problem is not None
    assert server.run(CALM_S - 1.5) is not None
    assert server.run(1.5 + STILL_S) is None


def test_a_clock_that_stands_still_after_a_jump_is_said_to_stand_still(server: Server) -> None:
    server.clock_ms += 60_000
    assert "jumped" in (server.run(0.1) or "")
    assert "stands still" in (server.run(3, speed=0.0) or "")


def test_the_text_of_a_problem_stays_the_same_while_it_lasts(server: Server) -> None:
    problem = server.run(3, speed=0.0)
    assert problem is not None
    assert server.run(30, speed=0.0) == problem


def test_a_key_that_went_away_or_was_renewed_by_another_says_nothing(server: Server) -> None:
    for ttl_ms in (None, 900.0, 5_000.0, None, 5_000.0):
        server.wait(0.6)
        server.ttl_ms = ttl_ms
        assert server.look() is None


def test_slow_answers_are_no_problem(server: Server) -> None:
    for call_s in (3.0, 0.001, 8.0, 0.001, 2.0, 2.0):
        server.wait(0.02)
        assert server.look(call_s=call_s) is None


def test_a_store_that_was_away_for_an_hour_is_no_problem(server: Server) -> None:
    server.wait(3_600)
    assert server.look() is None


@given(
    st.lists(
        st.tuples(st.floats(0.005, 10.0), st.floats(0.0005, 3.0), st.floats(0.95, 1.05)),
        min_size=2,
        max_size=40,
    ),
    st.integers(0, 2**41),
)
def test_a_clock_that_goes_is_never_a_problem_whatever_it_shows(
    looks: list[tuple[float, float, float]], clock_ms: int
) -> None:
    server = Server()
    server.clock_ms = clock_ms
    for pause_s, call_s, speed in looks:
        server.wait(pause_s, speed=speed)
        assert server.look(call_s=call_s) is None


@given(st.lists(st.tuples(st.floats(0.005, 6.0), st.floats(0.0005, 1.0)), min_size=2, max_size=40))
def test_a_clock_that_stands_still_is_noticed_after_a_second_of_looks(
    looks: list[tuple[float, float]],
) -> None:
    watch, now_s, waited_s = ClockWatch(), 0.0, 0.0
    watch.look(Look(now_s, now_s, EPOCH_MS))
    for number, (pause_s, call_s) in enumerate(looks, 1):
        now_s += pause_s
        watch.look(Look(now_s, now_s + call_s, EPOCH_MS))
        waited_s = now_s
        assert (watch.problem is not None) is (number >= 2 and waited_s >= STILL_S)
        now_s += call_s
