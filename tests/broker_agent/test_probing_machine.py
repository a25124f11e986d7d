"""Whatever a broker does, the verdicts follow from its last few answers and connections."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharedroutes.remoting.broker.probing import BrokerGone, BrokerUp, Probing, Rules, Verdict

IN_TIME, LATE, NEVER = "answered in time", "answered late", "never answered"
CONNECTED, REFUSED, AWAY = "connected", "refused", "no connection"


class BrokerIsProbed(RuleBasedStateMachine):
    """Connections are made, refused and time out; requests are answered in time, late and never."""

    @initialize(
        attempts=st.integers(1, 4),
        check_s=st.sampled_from((0.0, 0.5, 5.0)),
        failures=st.integers(1, 4),
        successes=st.integers(1, 4),
    )
    def begin(self, attempts: int, check_s: float, failures: int, successes: int) -> None:
        self.settled = Rules(
            attempts=attempts, check_s=check_s, deadline_s=1.0, failures=failures, successes=successes
        )
        self.probing = Probing(self.settled)
        self.now_s = 0.0
        self.connected = False
        self.needed = 1
        self.speaks = False
        self.happened: list[str] = []
        self.verdicts: list[Verdict] = []

    @precondition(lambda self: not self.connected)
    @rule()
    def connect(self) -> None:
        self.connected = True
        self.hear(CONNECTED, self.probing.connected())

    @precondition(lambda self: not self.connected)
    @rule()
    def refuse(self) -> None:
        self.hear(REFUSED, self.probing.not_connected(REFUSED, refused=True))

    @precondition(lambda self: not self.connected)
    @rule()
    def be_away(self) -> None:
        self.hear(AWAY, self.probing.not_connected(AWAY, refused=False))

    @precondition(lambda self: self.connected)
    @rule()
    def end_the_connection(self) -> None:
        self.connected = False

    @precondition(lambda self: self.connected and self.settled.check_s)
    @rule()
    def answer_in_time(self) -> None:
        self.answer(IN_TIME, 0.5)

    @precondition(lambda self: self.connected and self.settled.check_s and self.probing.patience_s > 1.5)
    @rule()
    def answer_late(self) -> None:
        self.answer(LATE, 1.5)

    @precondition(lambda self: self.connected and self.settled.check_s)
    @rule(closes=st.booleans())
    def never_answer(self, closes: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        self.ask()
        self.now_s += 0.0 if closes else self.probing.patience_s
        self.connected = not closes
        self.hear(NEVER, self.probing.unanswered(NEVER))

    def ask(self) -> None:
        at_s = self.probing.ask_at_s
        assert at_s is not None
        self.now_s = max(self.now_s, at_s)
        self.probing.asked(self.now_s)
        assert 1.0 <= self.probing.patience_s <= 30.0

    def answer(self, what: str, takes_s: float) -> None:
        self.ask()
        self.speaks = True
        asked_s, self.now_s = self.now_s, self.now_s + takes_s
        self.hear(what, self.probing.answered(self.now_s))
        next_s = self.probing.ask_at_s
        assert next_s is not None
        assert asked_s < next_s <= asked_s + self.settled.check_s

    def hear(self, what: str, verdict: Verdict | None) -> None:
        """Note what happened and the verdict on it, which has to follow from the last few happenings."""
        self.happened.append(what)
        hangs = what == NEVER and self.speaks and self.row(NEVER, AWAY, CONNECTED) >= self.settled.failures
        is_away = what == AWAY and self.row(AWAY) >= self.settled.attempts
        if what == REFUSED:
            self.needed = 1
        elif hangs or is_away:
            self.needed = self.settled.successes
        if self.settled.check_s and (self.speaks or what != CONNECTED):
            lives = what == IN_TIME and self.row(IN_TIME, CONNECTED) >= self.needed
        else:
            lives = what == CONNECTED
        before = isinstance(self.verdicts[-1], BrokerUp) if self.verdicts else None
        if what == REFUSED or hangs or is_away:
            assert isinstance(verdict, BrokerGone) is (before is not False)
        elif lives:
            assert isinstance(verdict, BrokerUp) is (not before)
        else:
            assert verdict is None
        if verdict is not None:
            self.verdicts.append(verdict)

    def row(self, what: str, *despite: str) -> int:
        """Return how often it happened last, with nothing in between but what does not interrupt it."""
        count = 0
        for happened in reversed(self.happened):
            if happened == what:
                count += 1
            elif happened not in despite:
                break
        return count

    @invariant()
    def the_verdicts_alternate(self) -> None:
        assert all(type(first) is not type(second) for first, second in pairwise(self.verdicts))
        last = self.verdicts[-1] if self.verdicts else None
        assert self.probing.alive is (None if last is None else isinstance(last, BrokerUp))


TestBrokerIsProbed = BrokerIsProbed.TestCase
