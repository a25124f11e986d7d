"""What redis-py's replies, errors and messages mean to a store."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import redis

from ..errors import InvalidInput, RegistryError, StoreRefused, StoreTimeout, StoreUnavailable
from ..keys import Keys
from ..plans import ORIGIN, ErrorReply, Reply
from ..plans.base import without
from ..plans.expiry import lease_of
from .discovery import Whereabouts
from .url import Address

_log = logging.getLogger("sharedroutes.registry")

REDIS_ERRORS: Final = (redis.RedisError, redis.exceptions.RedisClusterException, OSError)

_ENDED: Final = "the handler is closed"

_LEASE_GONE: Final = frozenset((b"del", b"expired", b"evicted", b"rename_from", b"move_from"))
"""Keyspace events of a lease that is there no more; UNLINK says `del` too. Those of renewals are passed over.

They are never needed: off by default, lost without a trace, and late for what ends by itself. Where a server
sends them, they announce at once a lease that was deleted by hand.
"""

_NONE_FREE: Final = "No connection available."
"""What a BlockingConnectionPool says, with an error that is also a server's."""

_BACKOFF_S: Final = 1.0
"""How long a replica that failed is not asked again."""

_LOG_AGAIN_S: Final = 600.0
_GOES_ON: Final = (
    "brokers come and go without it, and the registry writes it again once it has been moved away"
)

_UNTIL_FAILED_OVER: Final = (
    redis.ReadOnlyError,
    redis.exceptions.MasterDownError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.AskError,
)
_WILL_PASS: Final = ("BUSY", "NOREPLICAS")
_IN_SCRIPT: Final = re.compile(r"-(READONLY|NOREPLICAS|MASTERDOWN) ")
"""How Redis before 7 wraps these when they come up inside a script."""

# Answers that every other command would get, too.
_OF_THE_WHOLE_STORE: Final = (*_UNTIL_FAILED_OVER, redis.exceptions.NoPermissionError)

# What to raise for the answer of a server that was asked for the way: a ResponseError would be taken for the
# answer to the command itself.
_MET: Final = (
    (redis.AuthenticationError, redis.AuthenticationError),
    (redis.exceptions.NoPermissionError, redis.exceptions.NoPermissionError),
    (redis.TimeoutError, redis.TimeoutError),
    (redis.ResponseError, redis.RedisError),
)

_NOT_TRUSTED: Final = re.compile("CERTIFICATE|UNKNOWN_CA", re.IGNORECASE)


def check_client(client: Any) -> None:
    """Raise InvalidInput for a client that does not answer with bytes."""
    holder = getattr(client, "connection_pool", client)  # a client of a Cluster has several pools
    if getattr(holder, "connection_kwargs", None) is None:
        holder = getattr(client, "nodes_manager", None)
    if getattr(holder, "connection_kwargs", {}).get("decode_responses"):
        raise InvalidInput(
            "the Redis client must not be made with decode_responses=True: the registry reads bytes"
        )
    if getattr(client, "read_from_replicas", False) or getattr(client, "load_balancing_strategy", None):
        raise InvalidInput(
            "the Redis client must not read from replicas by itself: what must not be stale would be; "
            "pass stale=True to the calls that may"
        )


def moved_to(replies: Iterable[Reply]) -> Address | None:
    """Return the server that commands were redirected to; they did not run."""
    for reply in replies:
        if isinstance(reply, redis.exceptions.MovedError):
            return Address(reply.host, reply.port)
    return None


def asking_node(reply: Reply) -> Address | None:
    """Return the server that a slot is on its way to, when it alone can know the key of a command."""
    if isinstance(reply, redis.exceptions.AskError) and not isinstance(reply, redis.exceptions.MovedError):
        return Address(reply.host, reply.port)
    return None


def is_pool_exhausted(error: BaseException) -> bool:
    """Whether no connection was free in time, which says nothing about the server."""
    return isinstance(error, redis.exceptions.MaxConnectionsError) or str(error) == _NONE_FREE


def is_not_from_primary(reply: Reply) -> bool:
    """Whether an answer is one of a server that is not, or no longer, the primary."""
    if isinstance(reply, redis.ReadOnlyError | redis.exceptions.ClusterDownError):
        return True
    return isinstance(reply, redis.ResponseError) and _IN_SCRIPT.search(str(reply)) is not None


def _of_the_whole_store(reply: Reply) -> bool:
    """Whether this server would answer every other command in the same way."""
    return isinstance(reply, Exception) and (
        not isinstance(reply, redis.ResponseError) or isinstance(reply, _OF_THE_WHOLE_STORE)
    )


def problem_of_server(replies: Iterable[Reply]) -> Exception | None:
    """Return the first answer that this server would give to every other command as well."""
    return next((reply for reply in replies if _of_the_whole_store(reply)), None)


def newest_of(reply: Reply) -> str | None:
    """Return the id that a bare XREVRANGE of one entry names; None for an error, as of a foreign key."""
    if isinstance(reply, Exception):
        return None
    return str(reply[0][0].decode()) if reply else ORIGIN


def not_found(where: Whereabouts, problem: Exception | None) -> Exception:
    """Return the error of a search that found no server; `problem` is the last one it met."""
    if problem is None:
        return redis.ConnectionError(f"no server that was asked knows {where}")
    kind = next((kind for met, kind in _MET if isinstance(problem, met)), redis.ConnectionError)
    return kind(f"could not find out {where}: {str(problem) or type(problem).__name__}")


def no_script(reply: Reply) -> bool:
    """Whether the server answered that it does not know a script; then it did not run."""
    return isinstance(reply, redis.exceptions.NoScriptError)


def normal(reply: Reply, *, tolerant: bool = False) -> Reply:
    """Return the reply to one command; errors of that command alone become values, and if tolerant all.

    Raises StoreUnavailable for an error that will pass, and else what `translate` makes of one.
    """
    if not isinstance(reply, Exception):
        return reply
    if not isinstance(reply, redis.ResponseError) or (_of_the_whole_store(reply) and not tolerant):
        raise translate(reply)
    text = str(reply)
    code = str(getattr(reply, "status_code", None) or text.partition(" ")[0])
    if not tolerant and (code in _WILL_PASS or _IN_SCRIPT.search(text)):
        raise StoreUnavailable(f"the store accepts no commands at the moment: {text}")
    return ErrorReply(code, text.removeprefix(code + " "))


def is_ended(error: BaseException) -> bool:
    """Whether uvloop, through redis-py, says that a connection ended a moment before it was written to."""
    return isinstance(error, RuntimeError) and _ENDED in str(error)


def translate(error: BaseException) -> RegistryError:
    """Return what an error of redis-py means to the caller."""
    text = str(error) or type(error).__name__
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        return StoreRefused(f"the store refuses these credentials: {text}")
    if any(isinstance(cause, ssl.SSLError) and _NOT_TRUSTED.search(str(cause)) for cause in _causes(error)):
        return StoreRefused(f"a certificate is not trusted (ssl_ca_certs, ssl_certfile): {text}")
    if isinstance(error, redis.exceptions.RedisClusterException):
        return _of_a_cluster(error, text)
    return _of_the_connection(error, text)


def _of_the_connection(error: BaseException, text: str) -> RegistryError:
    if isinstance(error, redis.TimeoutError | TimeoutError):
        return StoreTimeout(f"the store did not answer in time: {text}")
    if isinstance(error, _UNTIL_FAILED_OVER):
        return StoreUnavailable(
            f"the store takes no writes now (a read-only replica, no master, or a slot on its way): {text}"
        )
    if isinstance(error, redis.ConnectionError | redis.exceptions.ClusterError | OSError) or is_ended(error):
        return StoreUnavailable(f"the store cannot be reached: {text}")
    return StoreRefused(f"the store answered with an error: {text}")


def _of_a_cluster(error: redis.exceptions.RedisClusterException, text: str) -> RegistryError:
    """Translate what a RedisCluster says by itself; it hides the reason behind one kind of error."""
    reasons = [cause for cause in _causes(error) if isinstance(cause, redis.RedisError | OSError)]
    if reasons:
        return type(translate(reasons[0]))(text)
    passing = isinstance(error, redis.exceptions.SlotNotCoveredError) or "slots are not covered" in text
    return (StoreUnavailable if passing else StoreRefused)(f"the Cluster does not serve the registry: {text}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what an error was raised for, from the outside in."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def doorbell_message(message: Mapping[str, Any] | None) -> bytes | None:
    """Return the payload of a message on the doorbell's channel; None for any other message of PubSub.

    Empty bytes stand for a subscription that has begun, perhaps anew: earlier messages may have been missed.
    """
    if message is None or message["type"] not in ("message", "subscribe"):
        return None
    data: bytes = message["data"] if message["type"] == "message" else b""
    return data


def lease_channels(client: Any, keys: Keys) -> str:
    """Return what the channels of the leases' events begin with; it has no character special to a glob.

    In a Redis Cluster only the node that holds a key publishes its events. The prefix has the registry's hash
    tag, so that node is the one that is subscribed to.
    """
    pool = getattr(client, "connection_pool", None)  # a client of a Cluster has several, and only database 0
    database = pool.connection_kwargs.get("db") if pool is not None else None
    return f"__keyspace@{database or 0}__:{keys.prefix}:lease:"


def lease_gone(prefix: str, message: Mapping[str, Any] | None) -> tuple[str, int] | None:
    """Return the lease that a message of redis-py's PubSub says is gone."""
    if message is None or message["type"] != "pmessage" or message["data"] not in _LEASE_GONE:
        return None
    return lease_of(message["channel"].decode(errors="replace").removeprefix(prefix))


class ReplicaBackoff:
    """Leaves a replica alone for a while after it has failed."""

    def __init__(self) -> None:
        self._until = 0.0
        self._failing = False

    def over(self, now: float) -> bool:
        """Whether a replica may be asked."""
        return now >= self._until

    def trusts(self, replies: Iterable[Reply], now: float) -> bool:
        """Note what a replica answered; return False when the primary has to be asked instead."""
        problem = problem_of_server(replies)
        if problem is not None:
            self.failed(problem, now)
            return False
        self._failing = False
        return True

    def failed(self, problem: object, now: float) -> None:
        """Note that no replica answered; the first of several failures is logged."""
        if not self._failing:
            _log.warning("no replica answers, the primary is read instead: %s", problem)
        self._failing = True
        self._until = now + _BACKOFF_S


def report_switch(where: Whereabouts, before: Address, after: Address) -> None:
    """Log that Sentinels name another primary than the one that was connected to."""
    _log.warning("%s is %s:%s now, and was %s:%s: connecting there", where, *after, *before)


class ForeignKeyLog:
    """Logs which foreign keys scripts did without: each once, and again after 10 minutes; thread-safe."""

    def __init__(self) -> None:
        self._logged: dict[str, float] = {}

    def look(self, replies: Iterable[Reply], now: float) -> None:
        """Log the keys that the reply of a script names; `now` is in seconds of the monotonic clock."""
        for reply in replies:
            for key in without(reply)[1]:
                if now >= self._logged.get(key, -_LOG_AGAIN_S) + _LOG_AGAIN_S:
                    self._logged[key] = now
                    _log.error("%s: does not hold what the registry wrote; %s", key, _GOES_ON)
