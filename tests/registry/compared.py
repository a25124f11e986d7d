"""A registry that is compared with its model after every step of every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic_ns
from typing import Any, TypeAlias

import redis
from hypothesis.stateful import RuleBasedStateMachine

from sharedroutes.registry import (
    Broker,
    BrokerOwned,
    Change,
    DataVersion,
    Registration,
    RegistryError,
    SeenLease,
    StaleEpoch,
    TopicConfig,
    plans,
)
from sharedroutes.registry.plans import Batch, Call, Plan, Reads, Reply
from sharedroutes.registry.plans.leases import RESTARTED
from sharedroutes.registry.plans.table import NO_VERSION
from tests.fix_redis import offences
from tests.registry.going import CONFIG, KEYS, PICTURE, TRIES, Going
from tests.registry.model_of_table import UNKNOWN_EPOCH, UNKNOWN_TOKEN, Answer, Copy, TableModel
from tests.registry.probes import one_batch, one_by_one

Run: TypeAlias = Callable[[Plan[Any]], Any]


class Compared(RuleBasedStateMachine):
    """A registry and its model; `run` runs a plan on the store."""

    def __init__(self, run: Run, admin: redis.Redis) -> None:
        super().__init__()
        self.run, self.admin = run, admin
        admin.flushall()
        self.model, self.copy = TableModel(), Copy()
        self.position = plans.ORIGIN
        self.held: list[Registration] = []
        self.found: list[Registration] = []
        """What the store said of owners, without their topics; good for all that the owner may do."""

        self.going: list[Going] = []
        self.issued: set[int] = set()
        self.tokens: set[tuple[str, str]] = set()
        self.sweeper = ""
        """Who holds the sweep."""

        self.ending: set[str] = set()
        """Leases that may end at any moment."""

        self.took_ms = 0
        """How long the last batch took; a clock that was read in it can be as old, or as new."""

        self.listed_anew: dict[bytes, int] = {}
        """Leases that were found alive by their rest of TTL, and so are listed up to so many ms late."""

        self.before = self.picture()

    def teardown(self) -> None:
        for going in self.going:
            going.plan.close()
        assert not offences(self.admin)
        again, page = Copy(), self.run(plans.changes_since(KEYS, plans.ORIGIN))
        for change in page.changes:
            again.apply(change)
        again.agrees(self.model)
        self.admin.flushall()

    def picked(self, some: list[Any], pick: int) -> Any:
        return some[-1 - pick % len(some)]

    def registers(
        self,
        broker: Broker,
        table: dict[str, TopicConfig],
        held: Registration | None,
        version: DataVersion,
        *,
        take_over: bool = True,
        instead_of: SeenLease | None = None,
    ) -> Going:
        """Run a registration that nothing comes between, and compare with what it must do as a whole."""
        group, one = self.model.group(broker.broker_name), broker.broker_id
        before, current = dict(group.table), group.epochs.get(one, 0)
        how: dict[str, Any] = {
            "held": held,
            "take_over": take_over,
            "version": version,
            "instead_of": instead_of,
        }
        going = self.begin(plans.register(CONFIG, broker, table, **how), broker=broker, wanted=table, **how)
        former = set() if going.is_known else self.model.former_ids(broker)
        brings = self.brings_topics(broker, former)
        owned = self.model.owned_by(broker, version.state_version, take_over=take_over, instead_of=instead_of)
        if held is None and not owned and not take_over and self.model.lives_as(broker, former):
            owned = (broker.address, 0)
        elsewhere = going.is_known and self.model.is_elsewhere(broker)
        self.finish(going)
        if held is None and owned:
            assert isinstance(going.error, BrokerOwned)
            assert (going.error.owner_address, going.error.owner_state_version) == owned
        elif held is not None and current != held.epoch:
            assert isinstance(going.error, StaleEpoch)
            assert going.error.current_epoch == current
        elif elsewhere:
            assert isinstance(going.error, StaleEpoch)
        else:
            assert going.error is None
            brought = table if brings else {}
            self.completed(going.result, self.after(broker, before, brought, brings=brings), brought)
            assert not self.model.is_elsewhere(broker, {broker.broker_id}), "an address stands under two ids"
        return going

    def after(
        self,
        broker: Broker,
        before: Mapping[str, TopicConfig],
        brought: Mapping[str, TopicConfig],
        *,
        brings: bool = True,
    ) -> dict[str, TopicConfig]:
        """Return the table of a group to which a replica has brought topics: a slave takes none away."""
        return {**brought} if brings and not broker.broker_id else {**before, **brought}

    def brings_topics(self, broker: Broker, former: Iterable[int] = ()) -> bool:
        """Whether a replica may write the table of its group now."""
        seniors = self.model.seniors(broker, former)
        may_write = broker.broker_id == 0 or broker.enable_acting_master is not None
        return may_write and not self.model.living_of(broker.broker_name, seniors)

    def completed(
        self, made: Registration, stored: Mapping[str, TopicConfig], known: Mapping[str, TopicConfig]
    ) -> None:
        """Compare a registration that nothing came between with the tables of store and owner after it."""
        name = made.broker.broker_name
        group = self.model.groups[name]
        assert group.table == stored
        assert made.topics == known
        assert self.model.clusters[name] == group.cluster
        assert made.complete is self.brings_topics(made.broker)
        master = group.leases.get(0)
        assert made.master_address == (master[1] if master and made.broker.broker_id else "")

    def registers_topic(self, held: Registration, topic: TopicConfig) -> Going:
        """Run a registration of one topic that nothing comes between, as `registers`."""
        group = self.model.group(held.broker.broker_name)
        before, current = dict(group.table), group.epochs.get(held.broker.broker_id, 0)
        is_its_own = held.table_token == (group.token or "")
        brings = self.brings_topics(held.broker)
        going = self.finish(self.begins_topic(held, topic))
        self.going.remove(going)
        if not brings or current != held.epoch:
            assert type(going.error) is (StaleEpoch if brings else RegistryError)
        elif is_its_own:
            assert group.table == {**before, topic.topic_name: topic}
            assert going.result == replace(held, table_token=group.token or "", topics=going.wanted)
        elif held.complete:
            assert going.error is None
            self.completed(going.result, self.after(held.broker, before, going.wanted), going.wanted)
        else:
            assert type(going.error) is RegistryError
            assert group.table == before
        return going

    def begins_topic(self, held: Registration, topic: TopicConfig) -> Going:
        table = {**held.topics, topic.topic_name: topic}
        plan = plans.register_topic(CONFIG, held, topic)
        going = self.begin(plan, broker=held.broker, wanted=table, held=held, one_topic=True)
        self.going.append(going)
        return going

    def begins(
        self,
        broker: Broker,
        table: dict[str, TopicConfig],
        held: Registration | None = None,
        version: DataVersion = NO_VERSION,
    ) -> Going:
        plan = plans.register(CONFIG, broker, table, held=held, version=version)
        going = self.begin(plan, broker=broker, wanted=table, version=version, take_over=True, held=held)
        self.going.append(going)
        return going

    def begin(self, plan: Plan[Any], **more: Any) -> Going:
        going = Going(one_by_one(plan), Reads(()), **more)
        self.advance(going, None)
        return going

    def finish(self, going: Going) -> Going:
        while not going.done:
            self.step(going)
        return going

    def goes_on(self, going: Going, batches: int) -> None:
        for _ in range(batches):
            if not going.done:
                self.step(going)
        if going.done and going in self.going:
            self.going.remove(going)

    def send(self, batch: Batch) -> list[Reply]:
        begin_ns = monotonic_ns()
        replies: list[Reply] = self.run(one_batch(batch))
        self.took_ms = (monotonic_ns() - begin_ns) // 1_000_000 + 1
        return replies

    def step(self, going: Going) -> None:
        """Send one batch, compare what it did, and let the plan go on to the next."""
        replies = self.send(going.batch)
        self.observe(going, replies)
        self.advance(going, replies)

    def advance(self, going: Going, replies: list[Reply] | None) -> None:
        """Let a plan go on to its next batch."""
        try:
            going.batch = going.plan.send(replies)  # type: ignore[arg-type]  # None: it starts
        except StopIteration as end:
            going.done, going.result = True, end.value
        except RegistryError as error:
            going.done, going.error = True, error
        if going.done:
            self.ended(going)

    def ended(self, going: Going) -> None:
        """Compare how a plan ended with the last answer that it got."""
        if going.error is not None:
            assert type(going.error) is self.error_of(going)
        elif isinstance(going.result, Registration):
            held, group = going.result, self.model.groups[going.result.broker.broker_name]
            assert going.verdict[0] == "ok"
            if held.table_token:
                assert held.table_token == group.token
                is_part = not held.complete or held.broker.broker_id
                assert group.table == ({**group.table, **held.topics} if is_part else held.topics)
            looked_up = going.one_topic and going.held is not None and not going.held.complete
            assert held.complete or looked_up or not held.table_token
            (self.held if held.complete else self.found).append(held)

    def error_of(self, going: Going) -> type[RegistryError]:
        """Return the error with which a plan has to end after its last answer."""
        status = going.verdict[0] if going.verdict else "may not write"
        if status == "elsewhere" and going.is_known:
            return StaleEpoch
        if status == "moved" and (going.held is None or going.held.complete):
            assert going.moves == TRIES + going.one_topic, "it gave up too soon, or too late"
        if status in ("moved", "junior", "may not write"):
            assert going.one_topic or status == "moved"
            return RegistryError
        return StaleEpoch if status == "fenced" else BrokerOwned

    def observe(self, going: Going, replies: list[Reply]) -> None:
        """Compare the answer of a script with the model's, and then everything that the store holds."""
        call = going.batch
        if not isinstance(call, Call):
            self.looked_around(going, call, replies)
            return
        (reply,) = replies
        answer = tuple(item.decode() if isinstance(item, bytes) else item for item in reply)
        compare = {
            "claim": self.claimed,
            "put_topics": self.put,
            "activate": self.activated,
            "expire": self.expired,
            "sweep": self.swept,
            "delete_topic": self.deleted,
        }[call.script.name]
        going.verdict = compare(going, call, answer)
        going.moves += going.verdict[0] in ("moved", "elsewhere")
        self.look(going.verdict[0])

    def looked_around(self, going: Going, reads: Reads, replies: list[Reply]) -> None:
        """Compare what a replica learns of the others of its group, and keep it."""
        broker = going.broker
        for (command, *keys), reply in zip(reads.commands, replies, strict=True):
            if command == "HGETALL" and keys == [KEYS.broker(broker.broker_name)]:
                going.former = frozenset(() if going.is_known else self.model.former_ids(broker))
                going.seniors = frozenset(self.model.seniors(broker, going.former))
            elif command == "GET" and isinstance(reply, bytes):
                going.verdict = (
                    ("owned",) if reply.endswith(b" " + broker.address.encode()) else going.verdict
                )
            elif command == "EXISTS":
                assert _ids(keys) == going.seniors
                assert reply == len(self.model.living_of(broker.broker_name, going.seniors))
                going.verdict = ("may not write",) if reply else going.verdict

    def claimed(self, going: Going, call: Call, answer: Answer) -> Answer:
        broker, version = going.broker, going.version.state_version
        assert going.take_over is (call.args[4] == RESTARTED)
        epoch = int(answer[1]) if answer[0] == "ok" else 0
        previous = self.model.group(broker.broker_name).epochs.get(broker.broker_id, 0)
        expected = self.model.claim(
            broker, version, epoch, take_over=going.take_over, instead_of=going.instead_of
        )
        assert answer[0] == expected[0]
        if answer[0] == "ok":
            assert len(answer) == 2
            self.issue(epoch, previous)
        else:
            assert (answer[1], int(answer[3])) == expected[1:]
            leases = self.model.group(broker.broker_name).leases
            assert (int(answer[4]), answer[1]) == leases[broker.broker_id]
        return expected

    def issue(self, epoch: int, previous: int) -> None:
        assert epoch > previous, "an epoch is not newer than the one before"
        assert epoch not in self.issued, "an epoch was issued twice"
        self.issued.add(epoch)

    def put(self, going: Going, call: Call, answer: Answer) -> Answer:
        _, epoch, expected_token, new_token, *_ = call.args
        count = int(call.args[8])
        names = [str(key).removeprefix(KEYS.topic("")) for key in call.keys[4 + count :]]
        chunk = {name: going.wanted.get(name) for name in names}
        assert _ids(call.keys[4 : 4 + count]) == going.seniors
        assert None not in chunk.values() or not going.broker.broker_id, "a slave takes topics away"
        tokens = (str(expected_token), str(new_token))
        expected = self.model.put(going.broker, int(epoch), tokens, chunk, going.seniors)
        assert answer[: len(expected)] == expected
        if expected[0] == "ok":
            self.new_token(going.broker.broker_name, tokens[1])
        return expected

    def new_token(self, name: str, token: str) -> None:
        assert (name, token) not in self.tokens, "a table token was used twice"
        self.tokens.add((name, token))

    def activated(self, going: Going, call: Call, answer: Answer) -> Answer:
        assert _ids(call.keys[8:]) == going.former
        arguments = (int(call.args[1]), str(call.args[2]), going.version, going.former)
        expected = self.model.activate(going.broker, *arguments)
        if expected[0] == "ok" and (arguments[1] or not going.broker.broker_id):
            table = self.model.groups[going.broker.broker_name].table
            assert table == self.after(going.broker, table, going.wanted), (
                "an address is served before its topics"
            )
        if going.broker.broker_id and answer[0] == "ok":
            assert ("ok", answer[1].rpartition(" ")[2]) == expected[:2]
        else:
            assert answer[: len(expected)] == expected
        return expected

    def expired(self, _: Going, call: Call, answer: Answer) -> Answer:
        *_rest, name, broker_id = call.keys[1].split(":")
        expected = self.model.expire(name, int(broker_id), int(call.args[1]))
        assert tuple(map(str, answer)) == tuple(map(str, expected))
        if answer[0] == "alive":
            self.listed_anew[KEYS.lease_member(name, int(broker_id)).encode()] = self.took_ms
        return expected

    def swept(self, going: Going, _: Call, answer: Answer) -> Answer:
        status, _clock, *more = answer
        assert status == ("ok" if self.sweeper in ("", going.reason) else "held")
        if status == "ok":
            self.sweeper = going.reason
            _, _, left_ms, *due = more
            assert left_ms >= CONFIG.sweeper_lease_s * 1000 / 2
            assert set(due) == {KEYS.lease_member(*lease) for lease in self.model.due()}
            assert (more[0] >= 0) is bool(self.model.living())
        return (status,)

    def deleted(self, going: Going, call: Call, answer: Answer) -> Answer:
        names = [key.removeprefix(KEYS.broker("")) for key in call.keys[4::2]]
        expected = self.model.delete_topic(going.reason, bytes(call.args[1]), names)  # type: ignore[arg-type]
        assert answer == expected
        return expected

    def look(self, verdict: str) -> None:
        """Compare all that the store holds, and what it told of it, with the model."""
        found = self.picture()
        if verdict not in ("ok", "alive", "held"):
            before = {key: value for key, value in self.before.items() if key not in self.ending}
            assert _differences(found, before) == {}, "what was refused has changed something"
        self.before = found
        self.learn(found)
        wanted = {key: value for key, value in self.model.picture(KEYS).items() if key not in self.ending}
        assert _differences(found, wanted) == {}
        page = self.run(plans.changes_since(KEYS, self.position))
        assert page.corrupt == ()
        assert not page.lost
        told = [_essence(change) for change in page.changes]
        expected = [_essence(change) for change in self.model.records]
        assert told == expected, f"the stream says {told}, not {expected}"
        self.model.records.clear()
        self.position = page.position
        for change in page.changes:
            self.copy.apply(change)
        self.copy.agrees(self.model)

    def learn(self, found: dict[str, Any]) -> None:
        """Take over what only the store can know: epochs and tokens that it made by itself."""
        for name, group in self.model.groups.items():
            fields = found.get(KEYS.broker(name), {})
            for broker_id, epoch in group.epochs.items():
                if epoch == UNKNOWN_EPOCH:
                    group.epochs[broker_id] = int(fields[b"epoch:%d" % broker_id])
                    self.issue(group.epochs[broker_id], 0)
            if group.token == UNKNOWN_TOKEN:
                group.token = fields[b"token"].decode()
                self.new_token(name, group.token)

    def picture(self) -> dict[str, Any]:
        """Return what the model's picture says, as the store has it; check times on the way."""
        found: dict[str, Any] = {}
        scores: dict[bytes, float] = {}
        ends: dict[bytes, tuple[int, int]] = {}
        for key, kind, value, (earliest_ms, latest_ms) in self.admin.eval(PICTURE, 0):
            name = key.decode()
            if kind == b"string":
                found[name] = value
                if earliest_ms >= 0:
                    ends[key.partition(b":lease:")[2]] = (earliest_ms, latest_ms)
            elif kind == b"set":
                found[name] = set(value)
            elif kind == b"zset":
                scores = dict(zip(value[::2], map(float, value[1::2]), strict=True))
                found[name] = set(scores)
            elif kind == b"hash":
                found[name] = dict(zip(value[::2], value[1::2], strict=True))
        found.pop(KEYS.sweeper, None)
        ends.pop(b"", None)
        for member, (earliest_ms, latest_ms) in ends.items():
            assert earliest_ms <= scores[member] <= latest_ms + self.listed_anew.get(member, 0)
        return {key: value for key, value in found.items() if key not in self.ending}


def _ids(leases: Iterable[str | int | bytes]) -> set[int]:
    """Return whose leases they are, within their group."""
    return {int(str(key).rpartition(":")[2]) for key in leases}


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Answer]:
    keys = found.keys() | wanted.keys()
    return {key: (found.get(key), wanted.get(key)) for key in keys if found.get(key) != wanted.get(key)}


def _essence(change: Change) -> Answer:
    names = (change.added, change.changed, change.removed, change.brokers)
    about = (change.kind, change.broker_name, change.broker_id, change.epoch, change.address, change.reason)
    return (*about, *(tuple(sorted(some)) for some in names), change.namespace, change.key)
