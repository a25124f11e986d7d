"""Errors that leave the process they were raised in: worker processes send them pickled."""

from __future__ import annotations

import pickle
import socket

import pytest

from sharedroutes.client import AttemptsFailed, BrokerRefused, Failure, NoRoute, NotStored
from sharedroutes.client.errors import code_of_failure
from sharedroutes.registry import CorruptData, InvalidInput, NewerSchema, StoreTimeout, StoreUnavailable
from sharedroutes.remoting import ClientErrorCode

FAILURE = Failure(
    number=1,
    broker_name="broker-a",
    queue_id=0,
    address="10.0.0.1:10911",
    began_s=0.0,
    latency_s=0.1,
    cause=ConnectionError("down"),
)


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (NoRoute("orders", "no live broker holds"), ["topic"]),
        (BrokerRefused(2, "busy"), ["code", "remark"]),
        (BrokerRefused(14), ["code", "remark"]),
        (AttemptsFailed("orders", (FAILURE,), "the limit of 0 retries"), ["topic", "code"]),
        (NotStored("orders", {"status": "FLUSH_DISK_TIMEOUT"}), ["topic", "answer"]),
        (NewerSchema("sr:meta", "9", 8), []),
        (CorruptData("sr:meta", "no number"), ["key"]),
        (StoreTimeout("slow"), ["args"]),
    ],
    ids=repr,
)
def test_an_error_survives_pickling(error: Exception, names: list[str]) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert [getattr(again, name) for name in names] == [getattr(error, name) for name in names]


def test_the_failures_of_attempts_survive_pickling() -> None:
    error = AttemptsFailed("orders", (FAILURE,), "the limit of 0 retries")
    (failure,) = pickle.loads(pickle.dumps(error)).failures  # noqa: S301 - our own
    assert (failure.broker_name, failure.queue_id, failure.latency_s) == ("broker-a", 0, 0.1)
    assert repr(failure.cause) == repr(FAILURE.cause)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoRoute("orders", "no live broker holds"), ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION),
        (StoreUnavailable("away"), ClientErrorCode.NO_NAME_SERVER_EXCEPTION),
        (StoreTimeout("slow"), ClientErrorCode.NO_NAME_SERVER_EXCEPTION),
        (BrokerRefused(14), 14),
        (ConnectionRefusedError(111, "refused"), ClientErrorCode.CONNECT_BROKER_EXCEPTION),
        (ConnectionRefusedError("raised by hand"), ClientErrorCode.CONNECT_BROKER_EXCEPTION),
        (OSError(113, "no route to host"), ClientErrorCode.CONNECT_BROKER_EXCEPTION),
        (socket.gaierror(-2, "unknown name"), ClientErrorCode.CONNECT_BROKER_EXCEPTION),
        (TimeoutError("slow"), ClientErrorCode.ACCESS_BROKER_TIMEOUT),
        (ConnectionResetError(104, "reset"), None),  # RocketMQ: RemotingSendRequestException, without a code
        (EOFError(), None),
        (InvalidInput("x"), None),
        (KeyError("x"), None),
    ],
    ids=repr,
)
def test_an_error_has_rocketmqs_code_where_there_is_one(error: Exception, code: int | None) -> None:
    assert code_of_failure(error) == code
