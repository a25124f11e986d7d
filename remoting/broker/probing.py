"""Decides whether a broker lives, from its connections and its answers; no clock and no socket is in here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class BrokerUp:
    """The broker accepts connections, and answers if it is asked."""


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The broker accepts no connections, or does not answer."""

    why: str
    hangs: bool = field(default=False, compare=False)
    """Whether its process still exists."""


Verdict: TypeAlias = BrokerUp | BrokerGone

_MOST_PATIENCE_S: Final = 30.0
_MOST_DOUBLINGS: Final = 10
_MOST_SILENCE_S: Final = 320.0
"""A broker that never answers is asked less and less often, at last at this interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How many findings make a verdict."""

    attempts: int
    """The broker is gone when so many connections in a row have failed, other than by being refused."""

    check_s: float = 0.0
    """Between two requests; 0 = an open connection is enough."""

    deadline_s: float = 1.0
    """The longest wait for the answer to one."""

    failures: int = 3
    """So many requests in a row without an answer in time, and the broker is gone."""

    successes: int = 2
    """So many in a row with one, and it is back."""

    @property
    def worst_s(self) -> float:
        """The longest time from when a broker hangs until it is found."""
        return self.check_s + self.failures * self.deadline_s


class Probing:
    """What is known about one broker; a method notes an event and returns the verdict if that changes it.

    A new process of the broker is trusted with its first answer. One that has stopped answering is still the
    same, and has to show more: connections to it succeed all the while, since the system accepts them for it.
    What has never answered perhaps does not speak the protocol: its silence says nothing.
    """

    def __init__(self, rules: Rules, *, speaks: bool = False) -> None:
        self.alive: bool | None = None
        """The verdict so far."""

        self.speaks = speaks
        """Whether the broker has ever answered."""

        self._rules = rules
        self._silences = 0
        self._not_connected = 0
        self._unanswered = 0
        self._answered = 0
        self._needed = 1
        self._asked_at_s: float | None = None

    @property
    def ask_at_s(self) -> float | None:
        """When to send the next request, which is more often in doubt; None = never."""
        if not self._rules.check_s:
            return None
        if self._asked_at_s is None:
            return 0.0
        if not self.speaks:
            silence_s = self._rules.deadline_s * (1 << min(self._silences, _MOST_DOUBLINGS))
            return self._asked_at_s + max(self._rules.check_s, min(silence_s, _MOST_SILENCE_S))
        in_doubt = not self.alive or self._unanswered
        period_s = min(self._rules.check_s, self._rules.deadline_s) if in_doubt else self._rules.check_s
        return self._asked_at_s + period_s

    @property
    def is_mute(self) -> bool:
        """Whether it was asked often enough to think that it does not speak the protocol."""
        return not self.speaks and self._silences >= self._rules.failures

    @property
    def asks(self) -> str:
        """Whether the broker is asked, for the operator."""
        if not self._rules.check_s:
            return "not asked: hang_check_s is 0"
        if self.is_mute:
            return "not asked: it does not speak the protocol, or has not answered since the agent began"
        return f"asked every {self._rules.check_s:g} s" if self.speaks else "asked, no answer yet"

    @property
    def patience_s(self) -> float:
        """How long to wait for the answer to the next request.

        While the broker hangs it is longer than the deadline, and grows: the request lies with a process that
        does not run and answers as soon as it does; and few connections that were given up wait for it then.
        """
        deadline_s = self._rules.deadline_s
        if self.alive is not False or self._unanswered < self._rules.failures:
            return deadline_s
        doublings = min(self._unanswered - self._rules.failures + 1, _MOST_DOUBLINGS)
        return max(deadline_s, min(deadline_s * (1 << doublings), _MOST_PATIENCE_S))

    def connected(self) -> Verdict | None:
        """There is a connection."""
        self._not_connected = 0
        return None if self._rules.check_s and self.speaks else self._up()

    def not_connected(self, why: str, *, refused: bool) -> Verdict | None:
        """There is none; `refused` = nothing listens at the port, so that the process has ended."""
        self._answered = 0
        if refused:
            self._not_connected = self._unanswered = self._silences = 0
            self._needed = 1
            self._asked_at_s = None  # the next process is asked at once
            return self._gone(why)
        self._not_connected += 1
        if self._not_connected < self._rules.attempts:
            return None
        self._needed = self._rules.successes
        return self._gone(why)

    def untrusted(self, why: str, now_s: float, *, closed: bool) -> Verdict | None:
        """There is no TLS connection: the broker has refused one, or only `closed` the connection.

        A broker that refuses works: that the agent is not let in is no reason to take the broker away.
        """
        if closed and self.speaks:
            return self.not_connected(why, refused=False)
        self._not_connected = 0
        if closed:
            return self._up()
        self.asked(now_s)
        return self.answered(now_s)

    def asked(self, now_s: float) -> None:
        """A request has been sent."""
        self._asked_at_s = now_s

    def answered(self, now_s: float) -> Verdict | None:
        """The request has been answered; an error counts too, since only a process that works returns one."""
        self.speaks = True
        self._unanswered = 0
        if self._asked_at_s is None or now_s - self._asked_at_s > self._rules.deadline_s:
            self._answered = 0
            return None
        self._answered += 1
        return self._up() if self._answered >= self._needed else None

    def unanswered(self, why: str) -> Verdict | None:
        """The request was not answered for as long as it was waited for, or before its connection ended."""
        self._answered = 0
        if not self.speaks:
            self._silences += 1
            return None
        self._unanswered += 1
        if self._unanswered < self._rules.failures:
            return None
        self._needed = self._rules.successes
        text = f"{why}, {self._unanswered} times in a row: it hangs, though its port is open"
        return self._gone(text, hangs=True)

    def _up(self) -> Verdict | None:
        if self.alive:
            return None
        self.alive = True
        return BrokerUp()

    def _gone(self, why: str, *, hangs: bool = False) -> Verdict | None:
        if self.alive is False:
            return None
        self.alive = False
        return BrokerGone(why, hangs)
