"""Where a client reads that may read at replicas: what is believed, which server is left, and for which."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sharedroutes.registry.connection.reading import BEHIND_S, Lag, Reading
from sharedroutes.registry.connection.url import Address, Endpoint, parse_url
from tests.support import examples

PRIMARY, *REPLICAS = (Address("localhost", port) for port in (1, 2, 3))
OF_ONE: Final = parse_url("redis://localhost:1?replica=localhost:2&replica=localhost:3")
OF_SENTINELS: Final = parse_url("redis+sentinel://s:1,s:2/routes")
OF_CLUSTER: Final = parse_url("redis+cluster://n:1")
ASKED: Final = Address("n", 1)
SPREAD_S: Final = 6.0
AS_PRIMARY: Final = [b"master", 1, []]


def as_replica(offset: int = 1, link: bytes = b"connected") -> list[Any]:
    return [b"slave", b"localhost", 1, link, offset]


def reading(endpoint: Endpoint = OF_ONE, place: str | None = "5-0", seed: int = 1) -> Reading:
    return Reading(
        endpoint, 5_000, lambda: place, spread_s=SPREAD_S, sweeper_lease_s=1.0, rng=random.Random(seed)
    )


def at_a_replica(where: Reading, now: float = 0.0) -> Address:
    """Connect to the first server, which is a replica in step; return it."""
    first = where.in_order(where.fixed(), now)[0]
    assert where.odd_role(as_replica(), first, now) == ""
    assert not where.found(first)
    return first


def fall_back(where: Reading, now: float) -> str:
    """Try the primary when no replica answers; return why it is not taken."""
    assert where.in_order(where.fixed(), now)[-1] == PRIMARY
    odd = where.odd_role(AS_PRIMARY, PRIMARY, now)
    if not odd:
        where.found(PRIMARY)
    return odd


# --- in which order servers are tried ----------------------------------------------------------------------


def test_the_primary_is_the_last_choice_and_the_server_in_use_the_first() -> None:
    where = reading()
    assert where.in_order(where.fixed(), 0.0)[-1] == PRIMARY
    used = at_a_replica(where)
    assert {where.in_order(where.fixed(), 0.0)[0] for _ in range(20)} == {used}


def test_a_server_that_failed_is_the_last_of_the_replicas() -> None:
    where = reading()
    failed = at_a_replica(where)
    token = where.token
    where.doubt()
    assert where.token is not token
    assert {tuple(where.in_order(where.fixed(), 0.0)[1:]) for _ in range(20)} == {(failed, PRIMARY)}


def test_sentinels_name_the_replicas_and_the_primary() -> None:
    where = reading(OF_SENTINELS)
    assert [question[1] for question in where.questions] == ["REPLICAS", "GET-MASTER-ADDR-BY-NAME"]
    replica = {b"ip": b"r", b"port": b"2", b"flags": b"slave", b"master-link-status": b"ok"}
    found = [*where.answer([replica], ASKED), *where.answer([b"p", b"1"], ASKED)]
    assert where.in_order(found, 0.0) == [("r", 2), ("p", 1)]
    assert where.answer([], ASKED) == []
    assert where.answer(None, ASKED) == []


def test_a_cluster_names_the_replicas_of_the_slot_and_its_owner() -> None:
    where = reading(OF_CLUSTER)
    slots = [[0, 16_383, [b"p", 1, b"id", []], [b"r", 2, b"id", []]]]
    assert where.in_order(where.answer(slots, ASKED), 0.0) == [("r", 2), ("p", 1)]
    assert where.answer([[0, 10, [b"p", 1, b"id", []]]], ASKED) == []
    assert where.needs_readonly


def test_who_comes_to_another_server_takes_all_connections_along() -> None:
    where = reading()
    used = at_a_replica(where)
    (other,) = {*REPLICAS} - {used}
    where.odd_role(as_replica(), other, 0.0)
    token = where.token
    assert where.found(other)
    assert where.token is not token
    at = where.read_at(0.0)
    assert at is not None
    assert (at.server, at.role) == (f"localhost:{other.port}", "replica")


# --- the primary -------------------------------------------------------------------------------------------


def test_who_knows_nothing_goes_to_the_primary_at_once_and_others_one_by_one() -> None:
    assert fall_back(reading(place=None), 0.0) == ""
    waits = []
    for seed in range(50):
        where, now = reading(seed=seed), 0.0
        while fall_back(where, now):
            now += 0.1
        waits.append(now)
    assert max(waits) <= SPREAD_S + 0.1
    assert sum(wait < SPREAD_S / 2 for wait in waits) in range(15, 36)


def test_the_primary_is_left_again_after_a_while() -> None:
    where = reading(place=None)
    assert fall_back(where, 0.0) == ""
    assert where.odd_role(AS_PRIMARY, PRIMARY, 9.9) == ""
    assert where.in_order(where.fixed(), 9.9)[0] == PRIMARY  # other connections come there, too
    assert where.odd_role(AS_PRIMARY, PRIMARY, 30.1) != ""
    assert where.in_order(where.fixed(), 30.1)[-1] == PRIMARY
    assert fall_back(where, 30.1) == ""  # no replica is there: it is the primary for as long again


# --- a replica that is behind ------------------------------------------------------------------------------


def test_a_server_that_has_the_place_is_believed() -> None:
    where = reading()
    at_a_replica(where)
    assert where.lacks("5-0", "5-0", 0.0) is None
    assert where.lacks("5-0", "5-1", 0.0) is None
    assert where.lacks(None, "0-0", 0.0) is None
    assert where.lacks("5-0", None, 0.0) is None  # a foreign key stands there: nobody can know


def test_a_replica_without_the_place_is_waited_for_and_then_rests() -> None:
    where = reading()
    used, now = at_a_replica(where), 0.0
    token = where.token
    while now < BEHIND_S:
        wait_s = where.lacks("5-0", "4-9", now)
        assert wait_s is not None
        assert 0 < wait_s <= 0.05
        now += wait_s
    assert where.token is token
    assert where.lacks("5-0", "4-9", now) == 0.0
    assert where.token is not token
    assert used not in where.in_order(where.fixed(), now)
    assert used in where.in_order(where.fixed(), now + 11)


def test_after_one_replica_that_was_behind_the_next_one_is_not_waited_for() -> None:
    where = reading()
    at_a_replica(where)
    where.lacks("5-0", "4-9", 0.0)
    assert where.lacks("5-0", "4-9", BEHIND_S) == 0.0
    at_a_replica(where, BEHIND_S)
    assert where.lacks("5-0", "4-9", BEHIND_S) == 0.0
    assert where.in_order(where.fixed(), BEHIND_S) == [PRIMARY]


def test_the_primary_is_believed_whatever_it_lacks() -> None:
    where = reading(place=None)
    fall_back(where, 0.0)
    assert where.lacks("5-0", "0-0", 0.0) is None


# --- a replica that does not hear its primary --------------------------------------------------------------


@pytest.mark.parametrize(
    "role",
    # A primary that is not the one that is named was a replica; it may be empty.
    [AS_PRIMARY, *(as_replica(link=link) for link in (b"connect", b"connecting", b"sync", b"handshake"))],
    ids=str,
)
def test_a_replica_that_lost_its_primary_or_has_become_one_is_left(role: list[Any]) -> None:
    where = reading()
    used = at_a_replica(where)
    assert where.odd_role(role, used, 1.0) != ""
    assert where.current is None


def test_a_replica_that_stands_still_is_left_when_somebody_sweeps() -> None:
    where = reading()
    used = at_a_replica(where)
    where.heard_pulse(1_000, 0.0)
    assert where.odd_role(as_replica(2), used, 100.0) == ""
    assert where.odd_role(as_replica(2), used, 102.9) == ""
    assert where.odd_role(as_replica(2), used, 103.1) != ""
    assert where.odd_role(as_replica(2), used, 200.0) != ""  # also when it is tried again
    assert where.odd_role(as_replica(3), used, 200.0) == ""


def test_silence_says_nothing_when_nobody_sweeps() -> None:
    where = reading()
    used = at_a_replica(where)
    assert where.odd_role(as_replica(), used, 1_000.0) == ""
    where.heard_pulse(1_000, 1_000.0)
    assert where.odd_role(as_replica(), used, 1_001.0) != ""
    fall_back(where, 1_001.0)
    fall_back(where, 1_010.0)
    assert where.odd_role(AS_PRIMARY, PRIMARY, 1_100.0) != ""  # there was no pulse at the primary either
    assert where.odd_role(as_replica(), used, 1_100.0) == ""


# --- lag ---------------------------------------------------------------------------------------------------


def test_lag_is_what_has_gone_by_since_the_last_word_of_the_primary_and_how_late_that_came() -> None:
    lag = Lag()
    assert lag.bound_s(0.0) is None
    lag.heard(50_000, 1_000.0)
    assert lag.bound_s(1_000.25) == pytest.approx(0.25)
    lag.heard(50_500, 1_001.5)  # a second later than it was the first time
    assert lag.bound_s(1_001.5) == pytest.approx(1.0)
    lag.heard(51_900, 1_001.9)
    assert lag.bound_s(1_002.0) == pytest.approx(0.1)
    lag.forget()
    assert lag.bound_s(1_002.0) is None


def test_a_clock_that_jumps_is_lag_for_two_minutes_at_most() -> None:
    lag, late = Lag(), 3.0
    for second in range(200):
        lag.heard(1_000 * second, second + (late if second > 10 else 0.0))
    assert lag.bound_s(199 + late) == pytest.approx(0.0)


# --- whatever happens --------------------------------------------------------------------------------------


@dataclass
class Server:
    """A primary or a replica: the ids that its stream has."""

    stream: list[int] = field(default_factory=list)
    is_up: bool = True
    hears: bool = True

    @property
    def newest(self) -> int:
        return self.stream[-1] if self.stream else 0


class Moves(RuleBasedStateMachine):
    """A client that reads at any server it likes, while these lag, die, come back and lose what they had."""

    def __init__(self) -> None:
        super().__init__()
        self.servers = {address: Server() for address in (PRIMARY, *REPLICAS)}
        self.next_id = 1
        self.now = 0.0
        self.place: int | None = None
        self.table = 0
        """The newest id that an answer which was believed had in it."""

        self.where = Reading(
            OF_ONE,
            5_000,
            lambda: None if self.place is None else f"{self.place}-0",
            spread_s=SPREAD_S,
            sweeper_lease_s=1.0,
            rng=random.Random(1),
        )

    @rule()
    def write(self) -> None:
        primary = self.servers[PRIMARY]
        primary.stream = [*primary.stream, self.next_id]
        self.next_id += 1

    @rule(which=st.sampled_from(REPLICAS), share=st.sampled_from([0.5, 1.0]))
    def replicate(self, which: Address, share: float) -> None:
        replica, primary = self.servers[which], self.servers[PRIMARY]
        if replica.hears:
            ahead = primary.stream[: round(len(primary.stream) * share)]
            same = replica.stream == primary.stream[: len(replica.stream)]
            replica.stream = max(replica.stream, ahead, key=len) if same else [*primary.stream]

    @rule(which=st.sampled_from([PRIMARY, *REPLICAS]))
    def fail_or_return(self, which: Address) -> None:
        self.servers[which].is_up = not self.servers[which].is_up

    @rule(which=st.sampled_from(REPLICAS))
    def cut_or_mend(self, which: Address) -> None:
        self.servers[which].hears = not self.servers[which].hears

    @rule()
    def lose(self) -> None:
        """The primary comes back with less, as after a failover; what is written then has newer ids."""
        primary = self.servers[PRIMARY]
        primary.stream = primary.stream[: len(primary.stream) // 2]

    @rule(seconds=st.sampled_from([0.1, 1.0, 12.0]))
    def read(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(40):
            address = self._connected()
            if address is None:
                return
            server = self.servers[address]
            place = None if self.place is None else f"{self.place}-0"
            wait_s = self.where.lacks(place, f"{server.newest}-0", self.now)
            if wait_s is None:
                self._believe(address, server)
                return
            self.now += wait_s

    def _connected(self) -> Address | None:
        for address in self.where.in_order(self.where.fixed(), self.now):
            server = self.servers[address]
            link = b"connected" if server.hears else b"connect"
            role = AS_PRIMARY if address == PRIMARY else as_replica(len(server.stream), link)
            if server.is_up and not self.where.odd_role(role, address, self.now):
                self.where.found(address)
                return address
            if address == self.where.current:
                self.where.doubt()
        return None

    def _believe(self, address: Address, server: Server) -> None:
        if self.place in (None, 0) or self.place in server.stream:
            assert server.newest >= self.table or self.place is None
        else:  # the client is told that changes were lost
            assert self.place not in self.servers[PRIMARY].stream
            assert address == PRIMARY or server.newest > (self.place or 0)
            self.place = None
        self.table = self.place = server.newest

    @invariant()
    def is_nowhere_or_at_one_of_them(self) -> None:
        assert self.where.current in (None, PRIMARY, *REPLICAS)

    def teardown(self) -> None:
        """When all is well again, the client reads at a replica within a minute."""
        for address in (PRIMARY, *REPLICAS):
            self.servers[address].is_up = self.servers[address].hears = True
        for _ in range(2):
            for replica in REPLICAS:
                self.replicate(replica, 1.0)
        for _ in range(6):
            self.read(12.0)
        at = self.where.read_at(self.now)
        assert at is not None
        assert at.role == "replica"


def test_no_answer_is_older_than_the_client_and_no_loss_is_made_up() -> None:
    run_state_machine_as_test(Moves, settings=settings(max_examples=examples(100), stateful_step_count=40))
