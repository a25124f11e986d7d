"""What the end of an attempt means: errors, response codes, one-way sends; and what is said of the broker."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sharedroutes.client import AttemptsFailed, RetryPolicy
from sharedroutes.client.attempts.policy import ONE_WAY_POLICY, RETRYABLE_CODES, ROCKETMQ_POLICY
from sharedroutes.client.errors import BrokerRefused
from sharedroutes.client.observers.events import AttemptEnded
from sharedroutes.registry import RegistryError
from sharedroutes.remoting.codes import ResponseCode
from tests.client.attempting import QUEUES, RESET, Bench, script

MESSAGE_ILLEGAL: Final = 13


class VendorError(Exception):
    """What somebody else's client raises."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class VendorLinkError(ConnectionError):
    """A network error that carries a code as well."""

    status = MESSAGE_ILLEGAL


def status_of(error: Exception) -> int | None:
    return getattr(error, "status", None)


def test_the_codes_are_rocketmqs() -> None:
    assert {1, 2, 14, 16, 17, 204, 205, 1500} == RETRYABLE_CODES
    assert ResponseCode(17).name == "TOPIC_NOT_EXIST"


@pytest.mark.parametrize("policy", [RetryPolicy(), ROCKETMQ_POLICY], ids=["default", "RocketMQ"])
@pytest.mark.parametrize("code", sorted(RETRYABLE_CODES))
async def test_a_refusal_with_a_retryable_code_is_tried_elsewhere(
    bench: Bench, code: int, policy: RetryPolicy
) -> None:
    assert await bench.run(script(BrokerRefused(code, "busy"), "done"), policy) == "done"
    assert bench.recorded == [("a", True), ("b", False)]


async def test_a_refusal_with_another_code_passes_and_isolates_nobody(bench: Bench) -> None:
    refused = BrokerRefused(MESSAGE_ILLEGAL, "too large")
    with pytest.raises(BrokerRefused, match="code 13: too large") as raised:
        await bench.run(script(refused))
    assert raised.value is refused
    assert bench.recorded == [("a", False)]


async def test_as_in_rocketmq_a_refusal_with_another_code_passes_and_isolates(bench: Bench) -> None:
    with pytest.raises(BrokerRefused):
        await bench.run(script(BrokerRefused(MESSAGE_ILLEGAL)), ROCKETMQ_POLICY)
    assert bench.recorded == [("a", True)]


async def test_the_policy_finds_the_code_of_somebody_elses_error(bench: Bench) -> None:
    policy = RetryPolicy(code_of=status_of, retry_codes=frozenset({503}))
    assert await bench.run(script(VendorError(503), "done"), policy) == "done"
    with pytest.raises(VendorError):
        await bench.run(script(VendorError(400)), policy)
    assert bench.recorded == [("a", True), ("b", False), ("a", False)]


async def test_an_error_with_a_code_is_judged_by_the_code_alone(bench: Bench) -> None:
    with pytest.raises(VendorLinkError):
        await bench.run(script(VendorLinkError()), code_of=status_of)
    assert bench.recorded == [("a", False)]


async def test_an_error_without_a_code_is_judged_by_its_class(bench: Bench) -> None:
    assert await bench.run(script(RESET, "done"), code_of=status_of) == "done"


async def test_when_all_refuse_the_last_refusal_is_the_cause(bench: Bench) -> None:
    with pytest.raises(AttemptsFailed, match="code 2: first; too") as failed:
        await bench.run(script(*(BrokerRefused(2, "first; too") for _ in range(3))))
    assert isinstance(failed.value.__cause__, BrokerRefused)
    assert isinstance(failed.value.__cause__, RegistryError)


def test_a_refusal_without_a_remark_says_the_code() -> None:
    assert str(BrokerRefused(2)) == "the broker answered with code 2"


async def test_of_a_one_way_send_only_the_failure_counts(bench: Bench) -> None:
    await bench.run(script("sent"), ONE_WAY_POLICY)
    with pytest.raises(ValueError, match="bad"):
        await bench.run(script(ValueError("bad")), ONE_WAY_POLICY)
    assert bench.recorded == []
    with pytest.raises(AttemptsFailed) as failed:
        await bench.run(script(RESET), ONE_WAY_POLICY)
    assert len(failed.value.failures) == 1
    assert bench.recorded == [("a", True)]


def test_the_number_of_retries_of_a_policy_can_be_changed() -> None:
    assert ONE_WAY_POLICY.with_retries(None) is ONE_WAY_POLICY
    changed = ONE_WAY_POLICY.with_retries(1)
    assert (changed.retries, changed.one_way) == (1, True)


ENDS: Final[dict[str, tuple[Exception | None, bool | None, Any]]] = {
    "a success": (None, None, "ok"),
    "a broken connection": (RESET, None, "failed"),
    "a refusal": (BrokerRefused(ResponseCode.SYSTEM_BUSY), False, "failed"),
    "an error of the caller's": (KeyError("x"), None, "error"),
}
"""How an attempt ends, whether the broker can be used, and the outcome."""


@pytest.mark.parametrize("case", ENDS)
def test_the_end_of_an_attempt_is_recorded_and_told_once(case: str) -> None:
    error, reachable, outcome = ENDS[case]
    bench = Bench()
    log = bench.log()
    log.leave(log.begin(QUEUES[0], 7.0), error, 7.5)
    ((name, result),) = bench.records
    assert (name, result.latency_s, result.reachable, result.began_at) == ("a", 0.5, reachable, 7.0)
    assert bench.events == [AttemptEnded("t", "a", 0.5, outcome)]


CODES: Final[dict[str, tuple[Exception, int | None]]] = {
    "refused connection": (ConnectionRefusedError(111, "refused"), 10001),
    "timeout": (TimeoutError(), 10002),
    "refusal": (BrokerRefused(14), 14),
    "broken connection": (RESET, None),
}


@pytest.mark.parametrize("case", CODES)
async def test_failed_attempts_have_rocketmqs_code_of_the_last_failure(bench: Bench, case: str) -> None:
    error, code = CODES[case]
    with pytest.raises(AttemptsFailed) as failed:
        await bench.run(script(TimeoutError(), error), retries=1)
    assert failed.value.code == code
    assert [failure.code for failure in failed.value.failures] == [10002, code]
    assert "TimeoutError() (10002 ACCESS_BROKER_TIMEOUT)" in str(failed.value)


async def test_the_code_of_an_error_of_ones_own_is_found_by_the_policy(bench: Bench) -> None:
    policy = RetryPolicy(retries=0, code_of=lambda error: 14 if isinstance(error, KeyError) else None)
    with pytest.raises(AttemptsFailed) as failed:
        await bench.run(script(KeyError("x")), policy)
    assert failed.value.code == 14


async def test_as_in_rocketmq_only_the_last_broker_is_avoided(bench: Bench) -> None:
    with pytest.raises(AttemptsFailed):
        await bench.run(script(*[RESET] * 3), as_rocketmq=True)
    assert bench.avoided == [frozenset(), {"a"}, {"b"}]
    assert [name for name, _ in bench.recorded] == ["a", "b", "a"]
