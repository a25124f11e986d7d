"""What both stores share of redis-py: client options, errors, the form of replies."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import redis
from redis.backoff import NoBackoff

from .config import RegistryConfig
from .errors import CorruptData, InvalidInput, RegistryError, StoreRefused, StoreTimeout, StoreUnavailable
from .plans import ErrorReply, Reply

__all__ = [
    "REDIS_ERRORS",
    "check_client",
    "client_options",
    "error_reply",
    "no_script",
    "normal",
    "report",
    "retry_arguments",
    "ring",
    "translate",
]

_log = logging.getLogger("sharedroutes.registry")

REDIS_ERRORS: Final = (redis.RedisError, OSError)

_NO_RETRIES: Final = 0  # redis-py's own default is 10, which outlasts any deadline


def client_options(config: RegistryConfig) -> dict[str, Any]:
    """Return the options of a redis-py client that keeps to the deadlines of `config`."""
    return {
        "socket_timeout": config.call_deadline_s,
        "socket_connect_timeout": config.connect_deadline_s,
        "max_connections": config.max_connections,
        "decode_responses": False,
    }


def retry_arguments() -> tuple[NoBackoff, int]:
    """Return the arguments of a redis-py Retry that never tries again by itself."""
    return NoBackoff(), _NO_RETRIES


def check_client(client: Any) -> None:
    """Raise InvalidInput for a client that does not answer with bytes."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None and pool.connection_kwargs.get("decode_responses"):
        raise InvalidInput(
            "the Redis client must not be made with decode_responses=True: the registry reads bytes"
        )


def error_reply(error: redis.ResponseError) -> ErrorReply:
    """Return an error answer of Redis as a value; raise StoreUnavailable for one that will pass."""
    code = str(getattr(error, "status_code", None) or str(error).partition(" ")[0])
    if code in _WILL_PASS or _IN_SCRIPT.search(str(error)):
        raise StoreUnavailable(f"the store takes nothing at the moment: {error}")
    return ErrorReply(code, str(error).removeprefix(code + " "))


def no_script(reply: Reply) -> bool:
    """Whether the server answered that it does not know a script; then it did not run."""
    return isinstance(reply, redis.exceptions.NoScriptError)


def normal(reply: Reply) -> Reply:
    """Return the reply to one command; errors of that command alone become values."""
    if isinstance(reply, redis.ResponseError) and not isinstance(reply, _OF_THE_WHOLE_STORE):
        return error_reply(reply)
    if isinstance(reply, Exception):
        raise translate(reply)
    return reply


def report(corrupt: Iterable[CorruptData]) -> None:
    """Log the keys that an operation left out of its answer."""
    for error in corrupt:
        _log.error("a key of the registry is corrupt, the rest is served: %s", error)


def ring(message: Mapping[str, Any] | None) -> bytes | None:
    """Return what a message of redis-py's PubSub says to a follower of the doorbell.

    Empty bytes stand for a subscription that has (again) begun: earlier messages may have been missed.
    """
    if message is None or message["type"] not in ("message", "subscribe"):
        return None
    data: bytes = message["data"] if message["type"] == "message" else b""
    return data


_UNTIL_FAILED_OVER: Final = (
    redis.ReadOnlyError,
    redis.exceptions.MasterDownError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
)
_WILL_PASS: Final = ("BUSY", "NOREPLICAS")
_IN_SCRIPT: Final = re.compile(r"-(READONLY|NOREPLICAS|MASTERDOWN) ")
"""How Redis before 7 wraps these when they come up inside a script."""

# What one command is told, and what every other one would be told too.
_OF_THE_WHOLE_STORE: Final = (*_UNTIL_FAILED_OVER, redis.exceptions.NoPermissionError)


def translate(error: BaseException) -> RegistryError:
    """Return what an error of redis-py means to the caller."""
    text = str(error) or type(error).__name__
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return StoreRefused(f"the store refuses these credentials: {text}")
    if isinstance(error, redis.TimeoutError | TimeoutError):
        return StoreTimeout(f"the store did not answer in time: {text}")
    if isinstance(error, _UNTIL_FAILED_OVER):
        return StoreUnavailable(f"the store takes no writes now (a read-only replica, or no master): {text}")
    if isinstance(error, redis.ConnectionError | OSError):
        return StoreUnavailable(f"the store cannot be reached: {text}")
    return StoreRefused(f"the store answered with an error: {text}")
