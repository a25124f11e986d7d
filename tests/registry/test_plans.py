"""What the operations send and make of the replies, without any server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sharedroutes.registry import (
    BrokerData,
    BrokerOwned,
    CorruptData,
    Group,
    InvalidInput,
    LeaseStatus,
    Registration,
    RegistryConfig,
    RegistryError,
    SeenLease,
    StaleEpoch,
    StoreRefused,
    plans,
    scripts,
)
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import Batch, Call, ErrorReply, Plan, Reads
from sharedroutes.registry.scripts import Script
from tests.registry.builders import ADDRESS, broker, table

CONFIG = RegistryConfig()
KEYS = Keys(CONFIG.namespace)
HELD = Registration(broker(), 7, "7.1", table(2))
GROUP = Group("cluster-1", "broker-a", (0, 1))


def result_of(plan: Plan[Any], replies: list[Any]) -> Any:
    """Send the replies and return what the plan returns for them."""
    with pytest.raises(StopIteration) as done:
        plan.send(replies)
    return done.value.value


def test_a_lookup_of_known_groups_is_one_mget_of_topics_and_leases() -> None:
    plan = plans.lookup(KEYS, ["t0", "t1"], {"broker-a": GROUP})
    wanted = [KEYS.topic("t0"), KEYS.topic("t1"), KEYS.lease("broker-a", 0), KEYS.lease("broker-a", 1)]
    assert next(plan) == Reads([("MGET", *wanted)])
    found = result_of(plan, [[b"broker-a 4 4 6 0", b"broker-a 2 2 6 0", None, b"7 h:2"]])
    assert found.alive == {"broker-a": BrokerData("cluster-1", "broker-a", {1: "h:2"})}
    assert list(found.routes()) == ["t0", "t1"]


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


def test_a_large_lookup_is_cut_into_commands_of_1000_keys_in_one_round_trip() -> None:
    batch = next(plans.lookup(KEYS, [f"t{number}" for number in range(2_500)]))
    assert isinstance(batch, Reads)
    assert [len(command) - 1 for command in batch.commands] == [1_000, 1_000, 500]


def test_a_first_registration_claims_reads_puts_and_activates_in_this_order() -> None:
    plan = plans.register(CONFIG, broker(), table(2))
    claim = next(plan)
    assert isinstance(claim, Call)
    assert claim.script is scripts.CLAIM
    assert claim.args == (0, "broker-a", "cluster-1", ADDRESS, "1", 0, "1", "", 0)
    assert plan.send([[b"ok", b"9"]]) == Reads((("HGETALL", KEYS.broker("broker-a")),))
    assert isinstance(plan.send([{}]), Reads)
    put = plan.send([None, (0, {})])
    assert isinstance(put, Call)
    assert put.script is scripts.PUT_TOPICS
    activate = plan.send([[b"ok"]])
    assert isinstance(activate, Call)
    assert activate.script is scripts.ACTIVATE
    held = result_of(plan, [[b"ok"]])
    assert held == Registration(broker(), 9, "9.1", table(2))


def test_a_registration_with_the_last_one_in_hand_sends_the_difference_alone() -> None:
    wanted = {**HELD.topics, "t1": table(2, queues=8)["t1"]}
    put = next(plans.register(CONFIG, broker(), wanted, held=HELD))
    assert isinstance(put, Call)
    assert list(put.keys[4:]) == [KEYS.topic("t1")]
    assert put.args[1:4] == (7, "7.1", "7.2")


def run_with(plan: Plan[Any], answer: Callable[[Batch], list[Any]]) -> Any:
    """Run a plan against a store that answers so."""
    batch = next(plan)
    while True:
        batch = plan.send(answer(batch))


@pytest.mark.parametrize("moved_by", [scripts.PUT_TOPICS, scripts.ACTIVATE], ids=lambda script: script.name)
def test_a_table_that_keeps_moving_ends_in_an_error_that_suspects_a_second_owner(moved_by: Script) -> None:
    moved = []

    def answer(batch: Batch) -> list[Any]:
        if isinstance(batch, Reads):
            return [b"7.5", (0, {})]
        if batch.script is moved_by:
            moved.append(batch)
            return [[b"moved", b"7.5"]]
        return [[b"ok"]]

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


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ([b"ok"], LeaseStatus.OK),
        ([b"fenced", b"9"], LeaseStatus.FENCED),
        ([b"lease"], LeaseStatus.LEASE_LOST),
        ([b"table"], LeaseStatus.TABLE_LOST),
    ],
)
def test_a_heartbeat_is_one_script_call_that_tells_the_status(reply: object, status: LeaseStatus) -> None:
    plan = plans.heartbeat(CONFIG, HELD)
    batch = next(plan)
    assert isinstance(batch, Call)
    assert batch.script is scripts.HEARTBEAT
    assert result_of(plan, [reply]) is status


def test_a_heartbeat_costs_the_same_for_any_number_of_topics() -> None:
    large = Registration(broker(), 7, "7.1", table(10_000))
    assert next(plans.heartbeat(CONFIG, large)) == next(plans.heartbeat(CONFIG, HELD))


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


def test_who_has_found_the_owner_gone_names_its_lease() -> None:
    claim = next(
        plans.register(CONFIG, broker(), table(1), instead_of=SeenLease(7, "h:9", 1_700_000_000_000))
    )
    assert isinstance(claim, Call)
    assert claim.args[-2:] == ("7 h:9", 1_700_000_000_000)


def test_a_superseded_owner_is_told_both_epochs() -> None:
    plan = plans.unregister(CONFIG, HELD)
    next(plan)
    with pytest.raises(StaleEpoch, match="epoch 7 has been superseded by epoch 9") as stale:
        plan.send([[b"fenced", b"9"]])
    assert (stale.value.epoch, stale.value.current_epoch) == (7, 9)


def test_a_read_that_the_store_refuses_names_key_and_answer() -> None:
    plan = plans.changes_since(KEYS, "0-0")
    next(plan)
    with pytest.raises(StoreRefused, match=r"\{sharedroutes\}:changes: ERR out of order"):
        plan.send([ErrorReply("ERR", "out of order")])
