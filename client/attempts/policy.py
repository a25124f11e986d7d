"""How often and how long to try, and what the end of an attempt means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from ...registry.checks import check_int, check_seconds, check_type
from ...registry.errors import InvalidInput, RegistryError
from ...remoting.codes import ResponseCode
from ..errors import BrokerRefused

NETWORK_ERRORS: Final[tuple[type[Exception], ...]] = (OSError, EOFError)
"""What a connection that breaks raises: refused, reset, timed out, ended in the middle of an answer."""

_OUR_OWN: Final = (RegistryError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
"""Errors that are an OSError too, but say nothing about the broker."""

_MAX_RETRIES: Final = 1_000
_LEAST_S: Final = 1e-9

_MOST_SHARES: Final = 3
_LEAST_SHARE_S: Final = 0.1
"""A healthy broker answers within it even while it flushes its disk."""

RETRYABLE_CODES_4: Final = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    )
)
"""What RocketMQ 4.9 tries another broker after (DefaultMQProducer: retryResponseCodes)."""

RETRYABLE_CODES: Final = RETRYABLE_CODES_4 | {ResponseCode.SYSTEM_BUSY, ResponseCode.GO_AWAY}
"""What RocketMQ 5.3.3 tries another broker after."""

NOT_STORED_CODES: Final = frozenset(
    (
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    )
)
"""Answers, not errors, of a broker that has the message less safely than it should (RocketMQ:
MQClientAPIImpl.processSendResponse): hand them to not_stored()."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the end of an attempt says."""

    name: Literal["ok", "failed", "error"]
    """The outcome in AttemptEnded."""

    failed: bool
    """It counts against the broker."""

    again: bool
    """Another broker may do better."""

    reachable: bool | None = None
    """False: the broker is not to be used, detector or not; None: as FaultMemory sees it."""


# Source: the catch clauses of DefaultMQProducerImpl.sendDefaultImpl.
OK: Final = Outcome("ok", failed=False, again=False)
FAILED: Final = Outcome("failed", failed=True, again=True)
_REFUSED: Final = Outcome("failed", failed=True, again=True, reachable=False)
_REFUSED_FOR_GOOD: Final = Outcome("failed", failed=True, again=False, reachable=False)
_NOT_THE_BROKERS: Final = Outcome("error", failed=False, again=False)
_NOT_STORED: Final = Outcome("error", failed=False, again=True)


def code_of_refusal(error: Exception) -> int | None:
    """Return the response code of a BrokerRefused, None for every other error."""
    return error.code if isinstance(error, BrokerRefused) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, for how long and after which errors to try again; raises InvalidInput for bad values."""

    retries: int = 2
    """Attempts after the first (RocketMQ: retryTimesWhenSendFailed); more = fewer errors, and more load when
    all brokers are busy."""

    deadline_s: float | None = 3.0
    """All attempts together, with the first lookup; no attempt begins later (RocketMQ: sendMsgTimeout).

    None = no limit."""

    attempt_timeout_s: float | None = None
    """The most time for an attempt that another can follow (RocketMQ: sendMsgMaxTimeoutPerRequest).

    None = its share of the time that is left, so that one broker that hangs does not take it all; as much as
    `deadline_s` = all of it, as RocketMQ does unless told otherwise."""

    pause_s: float = 0.1
    """The longest pause, drawn at random, before a broker that failed is tried again for want of another;
    less = sooner, and harder on it."""

    retry_on: tuple[type[Exception], ...] = NETWORK_ERRORS
    """The broker is at fault for these errors: it is left alone for a while, and another is tried. A wide
    class blames brokers for your own mistakes."""

    retry_codes: frozenset[int] = RETRYABLE_CODES
    """The same for response codes; an error that carries a code is judged by it alone."""

    code_of: Callable[[Exception], int | None] = code_of_refusal
    """Returns the response code that an error carries, here that of `BrokerRefused`; None = it carries none.
    Give your own for the errors of your library."""

    retry_not_stored: bool = True
    """Whether not_stored() leads to another broker (RocketMQ: retryAnotherBrokerWhenNotStoreOK): the message
    is safer, and may be there twice."""

    as_rocketmq: bool = False
    """Whether an answer with any other code counts against the broker, too, so that a message that no broker
    takes isolates all; and only the broker of the last attempt is avoided, not all that were tried."""

    one_way: bool = False
    """Whether brokers do not answer, so that only a failure says something of them, and the time of a block
    nothing."""

    def __post_init__(self) -> None:
        check_int("retries", self.retries, 0, _MAX_RETRIES)
        for name in ("deadline_s", "attempt_timeout_s"):
            if getattr(self, name) is not None:
                check_seconds(name, getattr(self, name), _LEAST_S)
        check_seconds("pause_s", self.pause_s, 0)
        check_type("retry_on", self.retry_on, tuple)
        kinds: tuple[object, ...] = self.retry_on
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise InvalidInput(f"retry_on: {kind!r} is no class of exceptions")
        check_type("retry_codes", self.retry_codes, frozenset)

    def with_retries(self, retries: int | None) -> RetryPolicy:
        """Return the policy with this number of retries; None = unchanged."""
        return self if retries is None else replace(self, retries=retries)

    def limit_s(self, left_s: float, following: int) -> float:
        """Return the seconds of `left_s` for an attempt that so many others can follow.

        Without a limit of the policy: a third of what is left, or more if fewer can follow, at least 0.1 s.
        """
        if not following:
            return left_s
        if self.attempt_timeout_s is not None:
            return min(left_s, self.attempt_timeout_s)
        return min(left_s, max(_LEAST_SHARE_S, left_s / min(following + 1, _MOST_SHARES)))

    def outcome_of(self, error: Exception | None) -> Outcome:
        """Return what the end of an attempt with this error means."""
        if error is None:
            return OK
        code = self.code_of(error)
        if code is None:
            return FAILED if self._is_the_brokers(error) else _NOT_THE_BROKERS
        if code in self.retry_codes:
            return _REFUSED
        return _REFUSED_FOR_GOOD if self.as_rocketmq else _NOT_THE_BROKERS

    @property
    def outcome_not_stored(self) -> Outcome:
        """What an answer means that not_stored() was called with."""
        return _NOT_STORED if self.retry_not_stored else _NOT_THE_BROKERS

    def _is_the_brokers(self, error: Exception) -> bool:
        """Return whether the broker is at fault: the closest class that is named counts."""
        for kind in type(error).__mro__:
            if kind in self.retry_on:
                return True
            if kind in _OUR_OWN:
                return False
        return False


ROCKETMQ_POLICY: Final = RetryPolicy(pause_s=0.0, retry_not_stored=False, as_rocketmq=True)
"""What the producer of RocketMQ 5.3.3 does; raise BrokerRefused for an answer with an error.

One thing differs: an attempt has a share of the time, as if sendMsgMaxTimeoutPerRequest were 1000. By
default, RocketMQ lets the first broker that hangs take all of it; `attempt_timeout_s=3.0` does so here.
"""

ROCKETMQ_4_POLICY: Final = replace(ROCKETMQ_POLICY, retry_codes=RETRYABLE_CODES_4)
"""The same of RocketMQ 4.9, which has no sendMsgMaxTimeoutPerRequest."""

ONE_WAY_POLICY: Final = RetryPolicy(retries=0, one_way=True)
"""One attempt, and only its failure counts (RocketMQ takes the time of a one-way send for an answer's)."""
