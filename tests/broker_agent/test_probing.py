"""When a broker counts as gone and as alive, on a clock that the test holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.broker_agent import AgentConfig
from sharedroutes.broker_agent.config import HANG_SUCCESSES, PROBE_ATTEMPTS
from sharedroutes.registry import Broker
from sharedroutes.remoting.broker.probing import BrokerGone, BrokerUp, Probing, Rules, Verdict

CONNECTED_ONLY = Rules(attempts=3)
ASKED = Rules(attempts=3, check_s=5.0, deadline_s=1.0, failures=3, successes=2)


@dataclass
class Bench:
    """A broker that is judged, and the time."""

    probing: Probing
    now_s: float = 100.0

    def ask(self, takes_s: float | None) -> Verdict | None:
        """Send the next request when it is time; get the answer after so many seconds, or never (None)."""
        at_s = self.probing.ask_at_s
        assert at_s is not None
        self.now_s = max(self.now_s, at_s)
        self.probing.asked(self.now_s)
        patience_s = self.probing.patience_s
        if takes_s is None or takes_s > patience_s:
            self.now_s += patience_s
            return self.probing.unanswered("no answer")
        self.now_s += takes_s
        return self.probing.answered(self.now_s)


def alive(rules: Rules = ASKED) -> Bench:
    bench = Bench(Probing(rules))
    assert bench.probing.connected() == BrokerUp()
    assert bench.ask(0.1) is None
    return bench


def hanging(rules: Rules = ASKED) -> Bench:
    bench = alive(rules)
    found = [bench.ask(None) for _ in range(rules.failures)]
    assert found[:-1] == [None] * (rules.failures - 1)
    assert isinstance(found[-1], BrokerGone)
    return bench


def test_without_requests_a_connection_is_enough() -> None:
    probing = Probing(CONNECTED_ONLY)
    assert probing.ask_at_s is None
    assert probing.connected() == BrokerUp()
    assert probing.connected() is None


@pytest.mark.parametrize("rules", [CONNECTED_ONLY, ASKED])
def test_a_refused_connection_means_gone_at_once_and_is_said_once(rules: Rules) -> None:
    probing = Probing(rules)
    assert probing.not_connected("refused", refused=True) == BrokerGone("refused")
    assert probing.not_connected("refused", refused=True) is None


@pytest.mark.parametrize("rules", [CONNECTED_ONLY, ASKED])
def test_other_failures_to_connect_mean_gone_after_some_in_a_row(rules: Rules) -> None:
    probing = Probing(rules)
    assert [probing.not_connected("late", refused=False) for _ in range(2)] == [None, None]
    probing.connected()
    assert [probing.not_connected("late", refused=False) for _ in range(2)] == [None, None]
    assert probing.not_connected("late", refused=False) == BrokerGone("late")


def test_a_connection_alone_is_no_life_of_a_broker_that_has_answered_before() -> None:
    bench = Bench(Probing(ASKED, speaks=True))
    assert bench.probing.connected() is None
    assert bench.ask(0.1) == BrokerUp()


def test_a_broker_that_never_answered_is_not_gone_and_is_asked_ever_less_often() -> None:
    bench = Bench(Probing(ASKED))
    assert bench.probing.connected() == BrokerUp()
    asked_s = []
    for _ in range(20):
        assert bench.ask(None) is None
        asked_s.append(bench.now_s)
    pauses_s = [round(later - earlier) for earlier, later in pairwise(asked_s)]
    assert pauses_s[:6] == [5, 5, 8, 16, 32, 64]
    assert pauses_s[-1] == 320
    assert bench.probing.alive


def test_that_a_broker_is_not_asked_is_said_with_the_reason() -> None:
    assert Probing(CONNECTED_ONLY).asks == "not asked: hang_check_s is 0"
    bench = Bench(Probing(ASKED))
    bench.probing.connected()
    for _ in range(ASKED.failures):
        assert bench.probing.asks == "asked, no answer yet"
        bench.ask(None)
    assert bench.probing.asks.startswith("not asked: it does not speak the protocol")
    bench.ask(0.1)
    assert bench.probing.asks == "asked every 5 s"


def test_silence_counts_from_the_first_answer_on_also_over_a_restart_of_the_broker() -> None:
    bench = Bench(Probing(ASKED))
    bench.probing.connected()
    for _ in range(5):
        bench.ask(None)
    bench.ask(0.9)
    bench.probing.not_connected("refused", refused=True)
    assert bench.probing.connected() is None
    assert bench.ask(None) is None
    assert bench.ask(0.1) == BrokerUp()


def test_another_program_behind_the_same_port_is_asked_anew() -> None:
    bench = Bench(Probing(ASKED))
    bench.probing.connected()
    for _ in range(9):
        bench.ask(None)
    bench.probing.not_connected("refused", refused=True)
    assert bench.probing.ask_at_s == 0.0
    assert not bench.probing.is_mute


def test_fewer_failures_than_it_takes_mean_nothing() -> None:
    bench = alive()
    for _ in range(5):
        assert [bench.ask(takes_s) for takes_s in (None, None, 0.1)] == [None] * 3
    assert bench.probing.alive


def test_the_verdict_says_that_the_broker_hangs() -> None:
    bench = alive()
    *_, gone = [bench.ask(None) for _ in range(3)]
    assert gone == BrokerGone("no answer, 3 times in a row: it hangs, though its port is open")


def test_a_broker_that_hung_is_back_after_some_answers_in_a_row() -> None:
    bench = hanging()
    assert [bench.ask(takes_s) for takes_s in (0.1, None, 0.1)] == [None] * 3
    assert bench.ask(0.1) == BrokerUp()


def test_a_connection_restores_no_broker_that_hangs() -> None:
    bench = hanging()
    assert bench.probing.connected() is None
    assert not bench.probing.alive


def test_no_late_answer_counts_as_one_in_time() -> None:
    bench = hanging(replace(ASKED, successes=1))
    assert bench.ask(1.5) is None
    assert bench.ask(0.1) == BrokerUp()
    for late in ((1.5, 0.1), (0.1, 1.5, 0.1)):
        bench = hanging()
        assert [bench.ask(takes_s) for takes_s in late] == [None] * len(late)
        assert bench.ask(0.1) == BrokerUp()


@pytest.mark.parametrize("judged", [alive, hanging])
def test_a_new_process_is_asked_at_once_and_trusted_with_its_first_answer(
    judged: Callable[[], Bench],
) -> None:
    bench = judged()
    bench.probing.not_connected("refused", refused=True)
    at_s = bench.probing.ask_at_s
    assert at_s is not None
    assert at_s <= bench.now_s
    bench.probing.connected()
    assert bench.ask(0.1) == BrokerUp()


def test_a_host_that_was_away_has_to_answer_more_than_once() -> None:
    bench = alive()
    for _ in range(3):
        bench.probing.not_connected("late", refused=False)
    bench.probing.connected()
    assert bench.ask(0.1) is None
    assert bench.ask(0.1) == BrokerUp()


def test_a_broker_that_works_is_asked_every_period_and_in_doubt_more_often() -> None:
    bench = alive()
    first_s = bench.now_s
    assert bench.probing.ask_at_s == pytest.approx(first_s - 0.1 + 5.0)
    bench.ask(None)
    assert bench.probing.ask_at_s == pytest.approx(bench.now_s)
    bench.ask(0.1)
    assert bench.probing.ask_at_s == pytest.approx(bench.now_s - 0.1 + 5.0)


@given(
    rules=st.builds(
        Rules,
        attempts=st.just(3),
        check_s=st.floats(0.1, 20),
        deadline_s=st.floats(0.1, 10),
        failures=st.integers(1, 5),
    ),
    hangs_share=st.floats(0, 1),
    lasts_share=st.floats(0, 2),
)
def test_who_hangs_is_found_within_the_time_that_the_settings_make_and_a_shorter_pause_is_none(
    rules: Rules, hangs_share: float, lasts_share: float
) -> None:
    bench = alive(rules)
    hangs_s = bench.now_s + hangs_share * 3 * rules.check_s
    wakes_s = hangs_s + lasts_share * rules.worst_s
    answer_s = rules.deadline_s / 100
    while bench.now_s < wakes_s + rules.worst_s:
        asked_s = max(bench.now_s, bench.probing.ask_at_s or 0.0)
        answered_s = (wakes_s if hangs_s <= asked_s < wakes_s else asked_s) + answer_s
        if isinstance(bench.ask(answered_s - asked_s), BrokerGone):
            assert rules.failures * rules.deadline_s <= bench.now_s - hangs_s + 1e-6 <= rules.worst_s + 2e-6
            assert wakes_s - hangs_s >= rules.failures * rules.deadline_s - answer_s - 1e-6
            return
    assert wakes_s - hangs_s <= rules.worst_s


def test_by_default_a_broker_that_hangs_is_found_in_time_and_a_long_pause_of_its_collector_is_none() -> None:
    config = AgentConfig(broker=Broker("broker-a", "10.0.0.1:10911"))
    rules = Rules(
        attempts=PROBE_ATTEMPTS,
        check_s=config.hang_check_s,
        deadline_s=config.hang_deadline_s,
        failures=config.hang_failures,
        successes=HANG_SUCCESSES,
    )
    assert rules.worst_s == 8.5
    bench = alive(rules)
    assert [bench.ask(takes_s) for takes_s in (None, None, 2.4)] == [None] * 3


def test_requests_are_sent_no_more_often_in_doubt_than_at_rest_where_that_is_often_already() -> None:
    bench = alive(replace(ASKED, check_s=0.25))
    bench.ask(None)
    bench.ask(0.0)
    assert bench.probing.ask_at_s == pytest.approx(bench.now_s + 0.25)


def test_the_patience_with_a_broker_that_hangs_grows_up_to_a_bound() -> None:
    bench = hanging()
    waits_s = []
    for _ in range(20):
        waits_s.append(bench.probing.patience_s)
        bench.ask(None)
    assert waits_s[:4] == [2.0, 4.0, 8.0, 16.0]
    assert waits_s[-1] == 30.0
    bench.ask(25.0)
    assert bench.probing.patience_s == 1.0


def test_the_patience_is_never_shorter_than_the_deadline() -> None:
    assert hanging(replace(ASKED, deadline_s=60.0)).probing.patience_s == 60.0


@pytest.mark.parametrize("rules", [CONNECTED_ONLY, ASKED])
def test_who_does_not_trust_the_agent_or_is_not_trusted_by_it_lives(rules: Rules) -> None:
    probing = Probing(rules, speaks=True)
    assert probing.untrusted("certificate unknown", 1.0, closed=False) == BrokerUp()
    assert [probing.untrusted("certificate unknown", now_s, closed=False) for now_s in (2.0, 3.0)] == [
        None
    ] * 2


def test_a_handshake_that_is_only_closed_counts_against_who_has_answered_before() -> None:
    probing = Probing(ASKED)
    assert probing.untrusted("closed", 1.0, closed=True) == BrokerUp()
    assert [probing.untrusted("closed", now_s, closed=True) for now_s in (2.0, 3.0, 4.0)] == [None] * 3
    bench = alive()
    assert [bench.probing.untrusted("closed", 200.0, closed=True) for _ in range(2)] == [None] * 2
    assert bench.probing.untrusted("closed", 201.0, closed=True) == BrokerGone("closed")
