"""What groups, leases, deadlines and listings must be like, and what mends them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from ... import codec, scripts
from ...checks import check_address, check_name
from ...config import RegistryConfig
from ...errors import CorruptData, InvalidInput
from ...keys import KeyKind, Keys
from ...model import MASTER_ID, Broker, ChangeKind
from ..base import Call, Command, Reply
from ..expiry import late_ms
from ..table import TOKEN, Write
from .differences import FOREIGN, Check, Difference, DifferenceKind

_EPOCH: Final = re.compile(rb"[0-9]{1,16}")
_JOINT: Final = re.compile(rb"[0-9]{1,16}( claimed)?")
_VOUCHED: Final = re.compile(rb"[0-9]{1,16} [0-9]{1,16}")
_AHEAD_MS: Final = 1_000
"""A lease and its deadline are written at once: a lease that has ended has no deadline ahead."""

_BROKER_UNLISTED: Final = "the broker is not in the index of brokers"


def field_problem(broker_name: str, name: bytes, value: bytes) -> str | None:
    """Return what is wrong with a field of a group, "" if nothing is; None for an unknown field."""
    text, of_replica = name.decode(errors="replace"), codec.replica_field(name)
    if of_replica is None and text not in ("token", "wiped", "cluster"):
        return None
    try:
        if of_replica is not None:
            _check_of_replica(of_replica[0], broker_name, of_replica[1], value)
        elif text == "cluster":
            check_name("brokerClusterName", value.decode())
        elif text == "wiped" and value != b"1":
            return "is not 1"
        elif text == "token" and not TOKEN.fullmatch(value.decode(errors="replace")):
            return "is no table token"
    except CorruptData as error:
        return error.reason
    except (InvalidInput, UnicodeDecodeError) as error:
        return str(error)
    return ""


def _check_of_replica(what: str, broker_name: str, broker_id: int, value: bytes) -> None:
    if what == "member":
        codec.decode_broker("", broker_name, broker_id, "cluster", value)
    elif what == "version":
        codec.decode_data_version("", value)
    elif what == "out":
        check_address("out", value.decode())
    elif what == "joint":
        if not _JOINT.fullmatch(value):
            raise InvalidInput("is no epoch of fronts")
    elif what == "vouched":
        if not _VOUCHED.fullmatch(value):
            raise InvalidInput("is no time until which fronts vouch")
    elif not _EPOCH.fullmatch(value):
        raise InvalidInput("is no epoch")


def mend_listing(keys: Keys, listing: str, name: str, of: Sequence[str]) -> Call:
    """Return what lists a name if one of its keys exists, and takes it out of the listing if none does."""
    in_set = listing != keys.brokers
    of_type = "string" if listing == keys.topics else "hash"
    removes = "0" if listing == keys.namespaces else "1"  # a namespace stays when its last key goes
    arguments = ("set" if in_set else "hash", of_type, removes, name)
    return Call(scripts.MEND_LISTING, (listing, keys.schema, of[0], of[-1]), arguments)


def mend_field(
    config: RegistryConfig,
    name: str,
    field: bytes,
    old: bytes,
    new: bytes,
    record: bytes = b"",
    seen: tuple[bytes, int, bytes] = (b"", MASTER_ID, b""),
) -> Call:
    """Return what writes a field of a group, or removes it (new = nothing), unless it has changed.

    `seen` is the lease of its replica, the id, and the epoch, which must be the same too; nothing = any.
    """
    keys, (lease, broker_id, epoch) = Keys(config.namespace), seen
    return Call(
        scripts.MEND_FIELD,
        (keys.broker(name), keys.changes, keys.schema, keys.lease(name, broker_id), keys.brokers),
        (field, old, new, record, config.feed_bounds, lease, broker_id, epoch, name),
    )


class Checks:
    """The checks of one registry, but for those of its route index."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._keys = Keys(config.namespace)
        self._late_ms = late_ms(config)

    def group(self, broker_name: str) -> Check:
        """Return the check of a group's own fields, and whether the index of brokers has it."""
        key = self._keys.broker(broker_name)
        found = partial(Difference, key=key, broker_name=broker_name)

        def judge(group: Reply, listed: Reply) -> Iterator[Difference]:
            if group is FOREIGN or not group:
                return
            fields = dict(zip(group[::2], group[1::2], strict=True))
            known = listed if isinstance(listed, bytes) else b""
            known = b"" if field_problem(broker_name, b"cluster", known) else known
            for part, value in fields.items():
                of_replica = codec.replica_field(part)
                if of_replica is not None and of_replica[0] == "member":  # see `member`
                    continue
                problem = field_problem(broker_name, part, value)
                if problem is None:
                    text = f"has a field {part[:80]!r} that the registry did not write; remove it"
                    yield found(DifferenceKind.FIELD_UNKNOWN, text=text)
                elif problem:
                    text = f"its field {part!r} is {value[:80]!r}: {problem}"
                    # Its owner's next heartbeat finds it missing, and registers.
                    new = known if part == b"cluster" else b""
                    cure = mend_field(self._config, broker_name, part, value, new)
                    yield found(DifferenceKind.FIELD_CORRUPT, text=text, cure=cure)
            if b"cluster" not in fields and any(name.startswith(b"member:") for name in fields):
                text = "has members and no cluster"
                text += "" if known else "; the broker brings it when it registers"
                again = mend_field(self._config, broker_name, b"cluster", b"", known) if known else None
                yield found(DifferenceKind.FIELD_CORRUPT, text=text, cure=again)
            if listed is None:
                cure = self._broker_listing(broker_name)
                yield found(DifferenceKind.BROKER_UNLISTED, text=_BROKER_UNLISTED, cure=cure)

        return Check((("HGETALL", key), ("HGET", self._keys.brokers, broker_name)), judge)

    def table_group(self, broker_name: str) -> Check:
        """Return the check whether a broker's table has a group, and is listed."""
        key, group = self._keys.broker_topics(broker_name), self._keys.broker(broker_name)
        found = partial(Difference, key=key, broker_name=broker_name)

        def judge(table: Reply, group: Reply, listed: Reply) -> Iterator[Difference]:
            if table != 1 or group != 0:
                return
            text = (
                "the group of this table is lost; the broker brings it when it registers, `forget` removes it"
            )
            yield found(DifferenceKind.TABLE_WITHOUT_GROUP, text=text)
            if listed == 0:
                cure = self._broker_listing(broker_name)
                yield found(DifferenceKind.BROKER_UNLISTED, text=_BROKER_UNLISTED, cure=cure)

        listing = ("HEXISTS", self._keys.brokers, broker_name)
        return Check((("EXISTS", key), ("EXISTS", group), listing), judge)

    def _broker_listing(self, name: str) -> Call:
        of = (self._keys.broker(name), self._keys.broker_topics(name))
        return mend_listing(self._keys, self._keys.brokers, name, of)

    def _replica(self, broker_name: str, broker_id: int) -> tuple[Command, ...]:
        """Return the reads of a replica's lease, of its fields of the group, and of its deadline."""
        fields = (f"member:{broker_id}", f"epoch:{broker_id}", "cluster")
        return (
            ("GET", self._keys.lease(broker_name, broker_id)),
            ("HMGET", self._keys.broker(broker_name), *fields),
            ("ZSCORE", self._keys.deadlines, self._keys.lease_member(broker_name, broker_id)),
        )

    def member(self, broker_name: str, broker_id: int) -> Check:
        """Return the check of a member, and whether its end will be announced if it has no lease."""
        part = b"member:%d" % broker_id
        key = self._keys.broker(broker_name)
        found = partial(Difference, key=key, broker_name=broker_name, broker_id=broker_id)

        def judge(lease: Reply, fields: Reply, deadline: Reply) -> Iterator[Difference]:
            if fields is FOREIGN or fields[0] is None:
                return
            problem = field_problem(broker_name, part, fields[0])
            if problem:
                text = f"its field {part!r} is {fields[0][:80]!r}: {problem}"
                cure = self._member(broker_name, broker_id, lease, fields)
                yield found(DifferenceKind.FIELD_CORRUPT, text=text, cure=cure)
            if lease is None and deadline is None:
                text = f"replica {broker_id} has neither lease nor deadline: nobody tells that it is dead"
                cure = self.mend_lease(broker_name, broker_id)
                yield found(DifferenceKind.MEMBER_WITHOUT_DEADLINE, text=text, cure=cure)

        return Check(self._replica(broker_name, broker_id), judge)

    def lease(self, broker_name: str, broker_id: int) -> Check:
        """Return the check of a lease, its member and its deadline."""
        key = self._keys.lease(broker_name, broker_id)
        found = partial(Difference, key=key, broker_name=broker_name, broker_id=broker_id)

        def judge(lease: Reply, fields: Reply, deadline: Reply) -> Iterator[Difference]:
            if lease in (None, FOREIGN) or fields is FOREIGN:
                return
            member, epoch, _ = fields
            # None for garbage, which is reported as a field.
            issued = int(epoch or 0) if epoch is None or _EPOCH.fullmatch(epoch) else None
            held = codec.decode_lease(lease)
            if held is None:
                text = (
                    f"{lease[:80]!r} is no lease: the replica is not seen, and cannot register until it ends"
                )
                yield found(DifferenceKind.LEASE_CORRUPT, text=text)
            elif issued is not None and held[0] > issued:  # an older one: a take-over, and it ends by itself
                text = f"has epoch {held[0]}, its group knows {issued or 'none'}: its owner registers again"
                yield found(DifferenceKind.LEASE_EPOCH, text=text)
            elif held[0] == issued and member is None:
                text = "is not among the members of its group: nobody sees it"
                cure = self._member(broker_name, broker_id, lease, fields)
                yield found(DifferenceKind.LEASE_WITHOUT_MEMBER, text=text, cure=cure)
            if deadline is None or (deadline is not FOREIGN and float(deadline) == math.inf):
                text = "has no deadline: nobody would notice its end at once"
                cure = self.mend_lease(broker_name, broker_id)
                yield found(DifferenceKind.LEASE_WITHOUT_DEADLINE, text=text, cure=cure)

        return Check(self._replica(broker_name, broker_id), judge)

    def mend_lease(self, broker_name: str, broker_id: int) -> Call:
        """Return what gives a replica's lease an end, and notes the deadline of the lease or of the dead."""
        keys = self._keys
        return Call(
            scripts.MEND_LEASE,
            (keys.broker(broker_name), keys.lease(broker_name, broker_id), keys.deadlines, keys.schema),
            (broker_id, self._config.lease_ttl_ms, keys.lease_member(broker_name, broker_id)),
        )

    def mend_ttl(self, kind: KeyKind, key: str) -> Call:
        """Return what gives a key that is no lease the end that its kind has, or takes it away."""
        ttl_ms = round(self._config.sweeper_lease_s * 1000) if kind.expires else ""
        return Call(scripts.MEND_KEY, (key, self._keys.schema), (kind.type_name, ttl_ms))

    def _member(self, name: str, broker_id: int, lease: Reply, fields: Sequence[bytes | None]) -> Call:
        """Return what puts a live replica into its group, with what its lease says, or removes a dead one.

        The rest comes when it registers.
        """
        stored, epoch, cluster = fields
        field = b"member:%d" % broker_id
        held = codec.decode_lease(lease) if isinstance(lease, bytes) else None
        if held is None or str(held[0]).encode() != epoch:
            return mend_field(self._config, name, field, stored or b"", b"")
        try:
            broker = Broker(name, held[1], broker_id, (cluster or b"").decode() or "DefaultCluster")
        except (InvalidInput, UnicodeDecodeError):
            broker = Broker(name, held[1], broker_id)
        write = Write.of(self._config, broker)
        record = write.record(ChangeKind.UP, held[0], cluster=broker.cluster, address=broker.address)
        new, seen = codec.encode_member(broker), (lease, broker_id, epoch)
        return mend_field(self._config, name, field, stored or b"", new, record, seen)

    def deadline(self, broker_name: str, broker_id: int) -> Check:
        """Return the check whether a lease ended unannounced, too long ago or before its deadline."""
        keys = self._keys
        member = keys.lease_member(broker_name, broker_id)

        def judge(deadline: Reply, lease: Reply, clock: Reply) -> Iterator[Difference]:
            if deadline in (None, FOREIGN) or lease == 1:
                return
            overdue_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000 - float(deadline)
            if not -_AHEAD_MS <= overdue_ms <= self._late_ms:
                ago = f"{overdue_ms / 1000:.1f} s ago" if 0 < overdue_ms < math.inf else "before its deadline"
                text = f"the lease of {member} ended {ago}: nobody sweeps"
                cure = self.mend_lease(broker_name, broker_id)
                kind, key = DifferenceKind.DEADLINE_OVERDUE, keys.deadlines
                yield Difference(kind, key, text, broker_name, broker_id, cure=cure)

        lease_key = keys.lease(broker_name, broker_id)
        return Check((("ZSCORE", keys.deadlines, member), ("EXISTS", lease_key), ("TIME",)), judge)

    def topic_listed(self, topic: str) -> Check:
        """Return the check whether a listed topic has a route index."""
        found = partial(Difference, DifferenceKind.TOPIC_GONE, topic=topic)
        return self._listed(self._keys.topics, "SISMEMBER", topic, found, (self._keys.topic(topic),))

    def broker_listed(self, name: str) -> Check:
        """Return the check whether a listed broker has a group or a table."""
        found = partial(Difference, DifferenceKind.BROKER_GONE, broker_name=name)
        of = (self._keys.broker(name), self._keys.broker_topics(name))
        return self._listed(self._keys.brokers, "HEXISTS", name, found, of)

    def _listed(
        self, key: str, command: str, name: str, found: Callable[..., Difference], of: Sequence[str]
    ) -> Check:
        def judge(listed: Reply, *present: Reply) -> Iterator[Difference]:
            if listed == 1 and not any(present):
                text = f"lists {name[:80]!r}, and there is no key {' or '.join(of)}"
                yield found(key=key, text=text, cure=mend_listing(self._keys, key, name, of))

        return Check(((command, key, name), *(("EXISTS", one) for one in of)), judge)

    def namespace(self, namespace: str) -> Check:
        """Return the check whether a namespace of the key-value store is listed."""
        key, listing = self._keys.kv(namespace), self._keys.namespaces

        def judge(present: Reply, listed: Reply) -> Iterator[Difference]:
            if present == 1 and listed == 0:
                text = "the namespace is not in the set of namespaces"
                cure = mend_listing(self._keys, listing, namespace, (key,))
                yield Difference(DifferenceKind.NAMESPACE_UNLISTED, key, text, cure=cure)

        return Check((("EXISTS", key), ("SISMEMBER", listing, namespace)), judge)

    def schema(self) -> Check:
        """Return the check of the number of the table's form."""
        keys = self._keys
        found = partial(Difference, DifferenceKind.SCHEMA, keys.schema)

        def judge(schema: Reply, brokers: Reply, namespaces: Reply) -> Iterator[Difference]:
            if schema is FOREIGN:
                return
            if schema is None and (brokers or namespaces):
                cure = Call(scripts.MEND_SCHEMA, (keys.schema,), ())
                yield found(f"is missing; it should be {scripts.SCHEMA}", cure=cure)
            elif schema is not None and not schema.isdigit():
                yield found(
                    f"{schema[:80]!r} is no schema number: all writes are refused; set it to the right one"
                )

        return Check((("GET", keys.schema), ("EXISTS", keys.brokers), ("EXISTS", keys.namespaces)), judge)
