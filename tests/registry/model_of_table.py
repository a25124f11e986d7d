"""What a registry must hold, in plain Python: the effect of each step, and what is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from sharedroutes.registry import (
    EXPIRED,
    MASTER_ID,
    Broker,
    Change,
    ChangeKind,
    DataVersion,
    LeaseStatus,
    SeenLease,
    TopicConfig,
    codec,
)
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.scripts import SCHEMA

UNKNOWN_EPOCH: Final = -1
"""The store chooses it; the next look at the store tells."""

UNKNOWN_TOKEN: Final = "?"  # noqa: S105 - the token of a table
SYNC_TOPIC: Final = "rmq_sys_SYNC_BROKER_MEMBER_a"
_WRITE: Final = 2

Answer: TypeAlias = tuple[Any, ...]
Lease: TypeAlias = tuple[int, str]
"""Epoch and address."""

Route: TypeAlias = tuple[frozenset[Any], frozenset[Any]]
"""Rows (broker, read, write, perm, flags) and brokers (name, cluster, addresses by id, acting, wiped)."""


@dataclass
class GroupModel:
    """One broker name."""

    cluster: str | None = None
    token: str | None = None
    wiped: bool = False
    table: dict[str, TopicConfig] = field(default_factory=dict)
    members: dict[int, Broker] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    versions: dict[int, DataVersion] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    """Only of the living."""

    @property
    def headless(self) -> bool:
        """Whether a slave stands in for the master."""
        return MASTER_ID not in self.leases and self.members[min(self.leases)].enable_acting_master is True

    def fields(self) -> dict[bytes, bytes]:
        """Return the group's hash."""
        named: dict[str, str | bytes] = {f"epoch:{one}": str(epoch) for one, epoch in self.epochs.items()}
        named |= {f"member:{one}": codec.encode_member(member) for one, member in self.members.items()}
        named |= {f"version:{one}": codec.encode_data_version(v) for one, v in self.versions.items()}
        for name, value in (("cluster", self.cluster), ("token", self.token)):
            if value is not None:
                named[name] = value
        if self.wiped:
            named["wiped"] = "1"
        return {name.encode(): v.encode() if isinstance(v, str) else v for name, v in named.items()}


class TableModel:
    """The whole registry; a method per script changes it and returns the answer that the script must give."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupModel] = {}
        self.clusters: dict[str, str] = {}
        """The index of brokers: the group's cluster; before it has one, what the last claim named."""

        self.index: dict[str, dict[str, bytes]] = {}
        """Topic to broker to its row, in the order of the rows."""

        self.deadlines: set[tuple[str, int]] = set()
        """Whose end is still to be announced: the living, and the dead that nobody swept."""

        self.kv: dict[str, dict[str, str]] = {}
        self.namespaces: set[str] = set()
        self.schema_written = False
        self.records: list[Change] = []
        """What must come next in the change stream."""

    def group(self, name: str) -> GroupModel:
        """Return a group, an empty one when nobody ever claimed it."""
        return self.groups.get(name) or GroupModel()

    def alive(self, name: str, broker_id: int) -> bool:
        return broker_id in self.group(name).leases

    # --- registration ---------------------------------------------------------------------------------------

    def owned_by(
        self, broker: Broker, version: int, *, take_over: bool, instead_of: SeenLease | None = None
    ) -> Answer | None:
        """Return (address, state version) of the live owner in the way of a claim, or None.

        Nobody renews a lease here between two looks at it.
        """
        group = self.group(broker.broker_name)
        lease = group.leases.get(broker.broker_id)
        if lease is None or (instead_of and lease == (instead_of.epoch, instead_of.address)):
            return None
        owner_version = group.versions.get(broker.broker_id, DataVersion()).state_version
        if lease[1] == broker.address:
            return None if take_over else (lease[1], owner_version)
        return None if version > owner_version else (lease[1], owner_version)

    def claim(
        self,
        broker: Broker,
        version: int,
        epoch: int,
        *,
        take_over: bool,
        instead_of: SeenLease | None = None,
    ) -> Answer:
        """`epoch` is the one that the store has issued, if it did."""
        owned = self.owned_by(broker, version, take_over=take_over, instead_of=instead_of)
        if owned:
            return ("owned", *owned)
        group = self.groups.setdefault(broker.broker_name, GroupModel())
        group.epochs[broker.broker_id] = epoch
        self.clusters[broker.broker_name] = group.cluster or broker.cluster
        self.schema_written = True
        return ("ok",)

    def former_ids(self, broker: Broker) -> set[int]:
        """Return the other ids of the members that have a broker's address."""
        members = self.group(broker.broker_name).members.items()
        return {one for one, m in members if m.address == broker.address and one != broker.broker_id}

    def lives_as(self, broker: Broker, former: Iterable[int]) -> set[int]:
        """Return those of some ids under which a broker's address is alive."""
        leases = self.group(broker.broker_name).leases
        return {one for one in former if leases.get(one, (0, ""))[1] == broker.address}

    def is_elsewhere(self, broker: Broker, but: Iterable[int] = ()) -> bool:
        """Whether a replica that has no lease for its address has this address under another id."""
        lives_there = bool(self.lives_as(broker, {broker.broker_id})) and not but
        return bool(self.former_ids(broker)) and not lives_there

    def seniors(self, broker: Broker, former: Iterable[int] = ()) -> set[int]:
        """Return the ids of those before whom a replica has no say, alive or not; a master has none."""
        lower = {one for one in self.group(broker.broker_name).members if one < broker.broker_id}
        return (lower | {MASTER_ID}) - {*former} if broker.broker_id else set()

    def living_of(self, name: str, some: Iterable[int]) -> set[int]:
        """Return those of some replicas that are alive."""
        return {one for one in some if self.alive(name, one)}

    def put(
        self,
        broker: Broker,
        epoch: int,
        tokens: tuple[str, str],
        chunk: Mapping[str, TopicConfig | None],
        seniors: Iterable[int],
    ) -> Answer:
        """`tokens`: expected and new; `chunk`: topics with what they become, None = removed."""
        name = broker.broker_name
        group = self.group(name)
        if group.epochs.get(broker.broker_id) != epoch:
            return ("fenced", str(group.epochs.get(broker.broker_id, 0)))
        if (group.token or "") != tokens[0]:
            return ("moved", group.token or "")
        if self.living_of(name, seniors):
            return ("junior",)
        known = group.table
        change = Change(
            kind=ChangeKind.TOPICS,
            broker_name=name,
            broker_id=broker.broker_id,
            epoch=epoch,
            added=tuple(sorted(topic for topic, new in chunk.items() if new and topic not in known)),
            changed=tuple(sorted(topic for topic, new in chunk.items() if new and topic in known)),
            removed=tuple(sorted(topic for topic, new in chunk.items() if not new)),
        )
        for topic, new in chunk.items():
            self._set(name, topic, new)
        group.token = tokens[1]
        if chunk:
            self.records.append(change)
        return ("ok",)

    def _set(self, name: str, topic: str, new: TopicConfig | None) -> None:
        table, rows = self.groups[name].table, self.index.setdefault(topic, {})
        if new is None:
            table.pop(topic, None)
            rows.pop(name, None)
        else:
            table[topic] = new
            rows[name] = codec.encode_row(name.encode(), codec.encode_config(new))
        if not rows:
            del self.index[topic]

    def activate(
        self, broker: Broker, epoch: int, token: str, version: DataVersion, former: Iterable[int]
    ) -> Answer:
        """`former`: other ids under which this address was known when the replica looked around."""
        name, broker_id = broker.broker_name, broker.broker_id
        group = self.group(name)
        if group.epochs.get(broker_id) != epoch:
            return ("fenced", str(group.epochs.get(broker_id, 0)))
        if token and (group.token or "") != token:
            return ("moved", group.token or "")
        elsewhere = self.former_ids(broker) - {*former}
        if elsewhere and group.leases.get(broker_id) != (epoch, broker.address):
            return ("elsewhere",)
        known = (group.leases.get(broker_id), group.members.get(broker_id), group.cluster)
        for other in former:
            if group.leases.get(other, (0, broker.address))[1] == broker.address:
                self._end(name, other, f"has id {broker_id} now", epoch)
                group.epochs[other] = UNKNOWN_EPOCH
        group.leases[broker_id] = (epoch, broker.address)
        # Cluster and name are the group's, not the member's: a member of a group that moved stays the same.
        group.members[broker_id] = broker
        group.cluster = broker.cluster
        lease, member, cluster = known
        if cluster != broker.cluster:
            self.clusters[name] = broker.cluster
        if version != DataVersion() or lease != (epoch, broker.address):
            group.versions[broker_id] = version
            group.versions = {one: v for one, v in group.versions.items() if v != DataVersion()}
        self.deadlines.add((name, broker_id))
        same_member = member is not None and codec.encode_member(member) == codec.encode_member(broker)
        if lease != (epoch, broker.address) or not same_member or cluster != broker.cluster:
            self.records.append(_of(ChangeKind.UP, broker, epoch, address=broker.address))
        if broker_id == MASTER_ID:
            return ("ok",)
        master = group.leases.get(MASTER_ID)
        return ("ok", master[1] if master else "")

    def _end(self, name: str, broker_id: int, reason: str, epoch: int) -> None:
        group = self.groups[name]
        group.leases.pop(broker_id, None)
        group.versions.pop(broker_id, None)
        self.deadlines.discard((name, broker_id))
        member = group.members.pop(broker_id, None)
        if member is not None:
            self.records.append(_of(ChangeKind.DOWN, member, epoch, reason=reason))

    # --- leases ---------------------------------------------------------------------------------------------

    def heartbeat(self, broker: Broker, epoch: int, token: str) -> LeaseStatus:
        group = self.group(broker.broker_name)
        owner = group.epochs.get(broker.broker_id)
        if owner is not None and owner != epoch:
            return LeaseStatus.LEASE_LOST if owner < epoch else LeaseStatus.FENCED
        lease = group.leases.get(broker.broker_id)
        if owner is None or lease is None or lease[0] != epoch:
            return LeaseStatus.LEASE_LOST
        return LeaseStatus.TABLE_LOST if token and group.token != token else LeaseStatus.OK

    def unregister(self, broker: Broker, epoch: int, reason: str) -> Answer:
        name, broker_id = broker.broker_name, broker.broker_id
        group = self.group(name)
        if group.epochs.get(broker_id) != epoch:
            return ("fenced", str(group.epochs.get(broker_id, 0)))
        was_there = (name, broker_id) in self.deadlines
        if was_there:
            self._end(name, broker_id, reason, epoch)
        return ("ok", int(was_there))

    def lease_ended(self, name: str, broker_id: int) -> None:
        """Note that the time of a lease has run out; nobody has said so yet."""
        del self.groups[name].leases[broker_id]

    def due(self) -> set[tuple[str, int]]:
        """Return the dead whose end was not announced."""
        return {(name, one) for name, one in self.deadlines if not self.alive(name, one)}

    def expire(self, name: str, broker_id: int, epoch: int) -> Answer:
        """`epoch`: the owner's when the lease was looked at, 0 = none."""
        if self.alive(name, broker_id):
            return ("alive",)
        current = self.group(name).epochs.get(broker_id, 0)
        if current != epoch:
            return ("fenced", str(current))
        if (name, broker_id) not in self.deadlines:
            return ("ok", 0)
        self._end(name, broker_id, EXPIRED, epoch)
        return ("ok", 1)

    # --- operators ------------------------------------------------------------------------------------------

    def write_perm(self, name: str, *, wiped: bool) -> Answer:
        group = self.groups.get(name)
        if group is None:
            return ("unknown",)
        changed = group.wiped is not wiped
        group.wiped = wiped
        if changed:
            kind = ChangeKind.WIPED if wiped else ChangeKind.LIFTED
            self.records.append(Change(kind=kind, broker_name=name))
        return ("ok", len(group.table), int(changed))

    def holders(self, topic: str, cluster: str | None) -> tuple[str, ...]:
        """Return the brokers that have a topic, alive or not."""
        groups = self.groups.items()
        return tuple(
            sorted(n for n, group in groups if topic in group.table and cluster in (None, group.cluster))
        )

    def delete_topic(self, topic: str, index: bytes, names: Iterable[str]) -> Answer:
        """`index`: the rows as they were read; `names`: who is to lose the topic."""
        names = tuple(names)
        if self.index_text(topic) != index:
            return ("moved",)
        deleted = [name for name in names if topic in self.group(name).table]
        for name in deleted:
            self._set(name, topic, None)
            self.groups[name].token = UNKNOWN_TOKEN
        if deleted:
            self.records.append(Change(kind=ChangeKind.DELETED, removed=(topic,), brokers=names))
        return ("ok", len(deleted))

    def kv_put(self, namespace: str, key: str, value: str) -> Answer:
        if self.kv.get(namespace, {}).get(key) == value:
            return ("ok", 0)
        self.kv.setdefault(namespace, {})[key] = value
        self.namespaces.add(namespace)
        self.schema_written = True
        self.records.append(Change(kind=ChangeKind.KV, namespace=namespace, key=key, reason="put"))
        return ("ok", 1)

    def kv_delete(self, namespace: str, key: str) -> Answer:
        if key not in self.kv.get(namespace, {}):
            return ("ok", 0)
        del self.kv[namespace][key]
        self.records.append(Change(kind=ChangeKind.KV, namespace=namespace, key=key, reason="deleted"))
        return ("ok", 1)

    # --- what is to be seen ---------------------------------------------------------------------------------

    def index_text(self, topic: str) -> bytes:
        return b"\n".join(self.index.get(topic, {}).values())

    def living(self) -> dict[str, GroupModel]:
        """Return the groups with a live replica."""
        return {name: group for name, group in self.groups.items() if group.leases}

    def routes(self) -> dict[str, Route]:
        """Return what a lookup of all topics must serve."""
        routes = {}
        for topic, rows in self.index.items():
            living = {name: group for name, group in self.living().items() if name in rows}
            if living:
                routes[topic] = (
                    frozenset(_row(name, group, topic) for name, group in living.items()),
                    frozenset(_broker_data(name, group, topic) for name, group in living.items()),
                )
        return routes

    def picture(self, keys: Keys) -> dict[str, Any]:
        """Return every key that the store must hold, but for the change stream and the sweeper's lease."""
        found: dict[str, Any] = {
            keys.topics: {topic.encode() for topic in self.index},
            keys.brokers: {name.encode(): cluster.encode() for name, cluster in self.clusters.items()},
            keys.deadlines: {keys.lease_member(*lease).encode() for lease in self.deadlines},
            keys.namespaces: {name.encode() for name in self.namespaces},
            keys.schema: str(SCHEMA).encode() if self.schema_written else None,
        }
        found |= {keys.topic(topic): self.index_text(topic) for topic in self.index}
        for name, table in self.kv.items():
            found[keys.kv(name)] = {key.encode(): value.encode() for key, value in table.items()}
        for name, group in self.groups.items():
            found[keys.broker(name)] = group.fields()
            found[keys.broker_topics(name)] = {
                topic.encode(): codec.encode_config(config) for topic, config in group.table.items()
            }
            for broker_id, lease in group.leases.items():
                found[keys.lease(name, broker_id)] = codec.encode_lease(*lease).encode()
        return {key: value for key, value in found.items() if value}


class Copy:
    """What somebody knows who read nothing but the change stream, from its beginning."""

    def __init__(self) -> None:
        self.alive: dict[tuple[str, int], str] = {}
        self.tables: dict[str, set[str]] = {}
        self.wiped: set[str] = set()
        self.kv: set[tuple[str, str]] = set()

    def apply(self, change: Change) -> None:
        """Take one change in; raise AssertionError for one that cannot be, after those before."""
        name, replica = change.broker_name, (change.broker_name, change.broker_id)
        table = self.tables.setdefault(name, set())
        match change.kind:
            case ChangeKind.UP:
                self.alive[replica] = change.address
            case ChangeKind.DOWN:
                assert self.alive.pop(replica, None), f"{change} of one that was not alive"
            case ChangeKind.TOPICS:
                assert table.issuperset((*change.changed, *change.removed)), f"{change} of what was not there"
                table.update(change.added)
                table.difference_update(change.removed)
            case ChangeKind.DELETED:
                for broker_name in change.brokers:
                    self.tables[broker_name].difference_update(change.removed)
            case ChangeKind.WIPED | ChangeKind.LIFTED:
                assert (name in self.wiped) is (change.kind is ChangeKind.LIFTED)
                self.wiped ^= {name}
            case ChangeKind.KV:
                has = {(change.namespace, change.key)}
                self.kv = self.kv | has if change.reason == "put" else self.kv - has

    def agrees(self, model: TableModel) -> None:
        """Raise AssertionError unless this is the table, but for the dead that were not announced yet."""
        assert self.alive.keys() == model.deadlines
        for (name, broker_id), address in self.alive.items():
            assert model.group(name).leases.get(broker_id, (0, address))[1] == address
        tables = {name: set(group.table) for name, group in model.groups.items() if group.table}
        assert {name: table for name, table in self.tables.items() if table} == tables
        assert self.wiped == {name for name, group in model.groups.items() if group.wiped}
        assert self.kv == {(name, key) for name, table in model.kv.items() for key in table}


def _of(kind: Literal[ChangeKind.UP, ChangeKind.DOWN], broker: Broker, epoch: int, **more: str) -> Change:
    made = Change(kind=kind, broker_name=broker.broker_name, broker_id=broker.broker_id, epoch=epoch)
    return replace(made, **more)  # type: ignore[arg-type]


def _row(name: str, group: GroupModel, topic: str) -> Answer:
    config = group.table[topic]
    perm = config.perm & ~_WRITE if group.wiped or group.headless else config.perm
    return (name, config.read_queue_nums, config.write_queue_nums, perm, config.topic_sys_flag)


def _broker_data(name: str, group: GroupModel, topic: str) -> Answer:
    addresses = {broker_id: address for broker_id, (_, address) in group.leases.items()}
    acting = group.members[min(addresses)].enable_acting_master is True
    if group.headless and topic != SYNC_TOPIC:
        addresses[MASTER_ID] = addresses.pop(min(addresses))
    return (name, group.cluster, frozenset(addresses.items()), acting, group.wiped)
