"""What the operations send and make of the replies, without any server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sharedroutes.registry import (
    BrokerData,
    BrokerOwned,
    CorruptData,
    InvalidInput,
    Registration,
    RegistryConfig,
    RegistryError,
    SeenLease,
    StoreRefused,
    plans,
    scripts,
)
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import Batch, Call, ErrorReply, Plan, Reads
from sharedroutes.registry.scripts import Script
from tests.registry.builders import broker, table

CONFIG = RegistryConfig()
KEYS = Keys(CONFIG.namespace)
HELD = Registration(broker(), 7, "7.1", table(2))


def result_of(plan: Plan[Any], replies: list[Any]) -> Any:
    """Send the replies and return what the plan returns for them."""
    with pytest.raises(StopIteration) as done:
        plan.send(replies)
    return done.value.value


def test_a_lookup_reads_unknown_groups_and_absent_topics_in_two_more_round_trips() -> None:
    plan = plans.lookup(KEYS, ["t0", "gone"])
    next(plan)
    assert plan.send([[b"broker-a 4 4 6 0", None]]) == Reads(
        [("TYPE", KEYS.topic("gone")), ("HGETALL", KEYS.broker("broker-a"))]
    )
    groups = {b"cluster": b"c", b"member:0": b"{}"}
    assert plan.send([b"none", groups]) == Reads([("MGET", KEYS.lease("broker-a", 0))])
    found = result_of(plan, [[b"7 h:1"]])
    assert found.missing == ("gone",)
    assert found.routes()["t0"].broker_datas == (BrokerData("c", "broker-a", {0: "h:1"}),)


def test_a_lookup_of_nothing_sends_nothing() -> None:
    with pytest.raises(StopIteration):
        next(plans.lookup(KEYS, []))


def run_with(plan: Plan[Any], answer: Callable[[Batch], list[Any]]) -> Any:
    """Run a plan against a store that answers so."""
    batch = next(plan)
    while True:
        batch = plan.send(answer(batch))


@pytest.mark.parametrize("moved_by", [scripts.PUT_TOPICS, scripts.ACTIVATE], ids=lambda script: script.name)
def test_a_table_that_keeps_moving_ends_in_an_error_that_suspects_a_second_owner(moved_by: Script) -> None:
    moved = list[Script]()

    def answer(batch: Batch) -> list[Any]:
        if isinstance(batch, Reads):
            return [b"7.5", (0, {})]
        scripts_of = [call.script for call in (batch, *batch.following)]
        moved.extend(script for script in scripts_of if script is moved_by)
        return [[b"moved", b"7.5"] if script is moved_by else [b"ok"] for script in scripts_of]

    with pytest.raises(RegistryError, match="shared"):
        run_with(plans.register(CONFIG, broker(), table(3), held=HELD), answer)
    assert len(moved) == 5


def test_topics_under_another_name_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidInput, match="under the name 'x'"):
        next(plans.register(CONFIG, broker(), {"x": table(1)["t0"]}))


@pytest.mark.parametrize("other", [broker("broker-b"), broker(broker_id=1)], ids=str)
def test_the_registration_of_another_broker_is_refused_before_anything_is_sent(other: Any) -> None:
    with pytest.raises(InvalidInput, match="registration in hand"):
        next(plans.register(CONFIG, other, {}, held=HELD))


WRITES: dict[str, Callable[[], Plan[Any]]] = {
    "claim": lambda: plans.register(CONFIG, broker(), table(1)),
    "put": lambda: plans.register(CONFIG, broker(), table(1), held=HELD),
    "activate": lambda: plans.register(CONFIG, broker(), HELD.topics, held=HELD),
    "heartbeat": lambda: plans.heartbeat(CONFIG, HELD),
    "unregister": lambda: plans.unregister(CONFIG, HELD),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (ErrorReply("OOM", "OOM command not allowed"), StoreRefused),
        ([b"corrupt", b"some:key", b"list"], CorruptData),
    ],
    ids=["error", "corrupt"],
)
def test_every_write_says_what_the_store_had_against_it(
    write: str, reply: object, error: type[RegistryError]
) -> None:
    plan = WRITES[write]()
    next(plan)
    with pytest.raises(error, match=r"OOM command|some:key"):
        plan.send([reply])


def test_a_heartbeat_costs_the_same_for_any_number_of_topics() -> None:
    large = Registration(broker(), 7, "7.1", table(10_000))
    batch = next(plans.heartbeat(CONFIG, HELD))
    assert isinstance(batch, Call)
    assert next(plans.heartbeat(CONFIG, large)) == batch


def test_a_live_owner_is_named_with_its_address_and_the_time_it_has_left() -> None:
    plan = plans.register(CONFIG, broker(), {})
    next(plan)
    with pytest.raises(BrokerOwned, match=r"held by h:9 \(state version 5\) for another 1234 ms") as owned:
        plan.send([[b"owned", b"h:9", 1234, b"5", b"7", b"1700000000000", b"5 1 2"]])
    assert "; give this broker another name or id, " in str(owned.value)
    assert (owned.value.owner_address, owned.value.remaining_ms) == ("h:9", 1234)
    lease = owned.value.lease
    assert lease == SeenLease(7, "h:9", 1_700_000_000_000)
    assert lease.version == (5, 2, 1)


def test_a_read_that_the_store_refuses_names_key_and_answer() -> None:
    plan = plans.changes_since(KEYS, "0-0")
    next(plan)
    with pytest.raises(StoreRefused, match=r"\{sharedroutes\}:changes: ERR out of order"):
        plan.send([ErrorReply("ERR", "out of order")])
