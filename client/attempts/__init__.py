"""Attempts at an operation on one broker after another, each measured and remembered."""

from ...remoting.codes import ResponseCode
from .attempt import (
    AsyncAttempt,
    AsyncAttempts,
    AsyncSelect,
    AsyncSending,
    Attempt,
    Attempts,
    Select,
    Sending,
)
from .log import AttemptLog, Record
from .policy import (
    NETWORK_ERRORS,
    NOT_STORED_CODES,
    ONE_WAY_POLICY,
    RETRYABLE_CODES,
    RETRYABLE_CODES_4,
    ROCKETMQ_4_POLICY,
    ROCKETMQ_POLICY,
    RetryPolicy,
)

__all__ = [
    "NETWORK_ERRORS",
    "NOT_STORED_CODES",
    "ONE_WAY_POLICY",
    "RETRYABLE_CODES",
    "RETRYABLE_CODES_4",
    "ROCKETMQ_4_POLICY",
    "ROCKETMQ_POLICY",
    "AsyncAttempt",
    "AsyncAttempts",
    "AsyncSelect",
    "AsyncSending",
    "Attempt",
    "AttemptLog",
    "Attempts",
    "Record",
    "ResponseCode",
    "RetryPolicy",
    "Select",
    "Sending",
]
