"""Try an operation on one broker after another, measuring each and remembering who failed."""

from ...remoting.codes import ResponseCode
from .log import AttemptLog, Record
from .loops import AsyncAttempt, AsyncAttempts, Attempt, Attempts, Select, SelectLater
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
from .sending import AsyncSending, Sending

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
    "AsyncSending",
    "Attempt",
    "AttemptLog",
    "Attempts",
    "Record",
    "ResponseCode",
    "RetryPolicy",
    "Select",
    "SelectLater",
    "Sending",
]
