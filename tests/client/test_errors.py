"""Errors that leave the process they were raised in: worker processes send them pickled."""

from __future__ import annotations

import pickle

import pytest

from sharedroutes.client import AttemptsFailed, BrokerRefused, Failure, NoRoute

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
        (AttemptsFailed("orders", (FAILURE,), "the limit of 0 retries"), ["topic"]),
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
