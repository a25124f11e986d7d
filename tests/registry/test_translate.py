"""What the errors of redis-py mean to the caller, whichever way the store is reached."""

from __future__ import annotations

import ssl

import pytest
import redis
import redis.asyncio.sentinel
import redis.sentinel
from redis import exceptions

from sharedroutes.registry import (
    RegistryError,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from sharedroutes.registry.connection.replies import normal, translate

MOVED = "5000 127.0.0.1:7001"


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (redis.sentinel.MasterNotFoundError("no master"), StoreUnavailable),
        (redis.sentinel.SlaveNotFoundError("no replica"), StoreUnavailable),
        (redis.asyncio.sentinel.MasterNotFoundError("no master"), StoreUnavailable),
        (redis.asyncio.sentinel.SlaveNotFoundError("no replica"), StoreUnavailable),
        (exceptions.ClusterDownError("The cluster is down"), StoreUnavailable),
        (exceptions.MasterDownError("link down"), StoreUnavailable),
        (exceptions.SlotNotCoveredError("slot 1"), StoreUnavailable),
        (exceptions.RedisClusterException("All slots are not covered after query"), StoreUnavailable),
        (exceptions.RedisClusterException("EVAL - all keys must map to the same key slot"), StoreRefused),
        (exceptions.ClusterError("TTL exhausted."), StoreUnavailable),
        (exceptions.MaxConnectionsError(), StoreUnavailable),
        (exceptions.TryAgainError("multiple keys"), StoreUnavailable),
        (exceptions.AskError(MOVED), StoreUnavailable),
        (exceptions.MovedError(MOVED), StoreUnavailable),
        (exceptions.ReadOnlyError("a replica"), StoreUnavailable),
        (exceptions.BusyLoadingError("loading"), StoreUnavailable),
        (exceptions.NoPermissionError("no"), StoreRefused),
        (redis.AuthenticationError("no"), StoreRefused),
        (redis.TimeoutError("late"), StoreTimeout),
        (TimeoutError("late"), StoreTimeout),
        (redis.ConnectionError("gone"), StoreUnavailable),
        (OSError("gone"), StoreUnavailable),
        (redis.RedisError("odd"), StoreRefused),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_of_redis_py_means(error: Exception, meaning: type[RegistryError]) -> None:
    translated = translate(error)
    assert type(translated) is meaning
    assert str(error) in str(translated)


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        (redis.AuthenticationError("WRONGPASS"), StoreRefused),
        (redis.TimeoutError("late"), StoreTimeout),
        (redis.ConnectionError("gone"), StoreUnavailable),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_cluster_that_cannot_be_read_is_what_kept_it(
    reason: Exception, meaning: type[RegistryError]
) -> None:
    error = exceptions.RedisClusterException(f"Redis Cluster cannot be connected: {reason}")
    error.__cause__ = reason
    translated = translate(error)
    assert type(translated) is meaning
    assert str(reason) in str(translated)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", StoreRefused),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", StoreRefused),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", StoreUnavailable),
    ],
)
def test_a_certificate_that_is_not_trusted_is_told_from_a_server_that_is_gone(
    text: str, meaning: type[RegistryError]
) -> None:
    error = redis.ConnectionError(f"Error connecting: {text}")
    error.__context__ = ssl.SSLError(1, text)
    assert type(translate(error)) is meaning


@pytest.mark.parametrize("kind", [exceptions.AskError, exceptions.MovedError, exceptions.TryAgainError])
def test_a_slot_on_its_way_is_no_answer_to_a_command(kind: type[redis.ResponseError]) -> None:
    with pytest.raises(StoreUnavailable, match="slot on its way"):
        normal(kind(MOVED))


def test_an_error_of_one_command_is_a_value() -> None:
    assert normal(redis.ResponseError("WRONGTYPE Operation")).code == "WRONGTYPE"
