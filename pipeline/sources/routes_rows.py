"""What stands in the store, as Arrow columns: few configurations are those of all topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ...registry import CorruptData, InvalidInput, TopicConfig
from ...registry.checks import MAX_NAME_BYTES, check_name
from ...registry.codec import decode_broker, decode_config, decode_lease
from ...registry.plans.replicas import RawTable, Replica
from ..schemas import CONFIG_FIELDS, ROUTES
from ..tables import Table

_MAX_CONFIGS: Final = 65_536
_IN_NO_NAME: Final = r"[\s\x00-\x1f\x7f]"
_ROUTES: Final = ROUTES.arrow

Facts: TypeAlias = Mapping[str, Any]
"""What all entries of a broker have in common, by column."""


def entry_rows(registry: str, found: Sequence[tuple[Facts, RawTable]]) -> Iterator[pa.RecordBatch]:
    """Yield batches of ROUTES for the tables of brokers, or parts of some: what cannot be read is apart."""
    names = pa.array([name for _, table in found for name in table], pa.binary())
    values = pa.array([value for _, table in found for value in table.values()], pa.binary())
    brokers = pa.array([at for at, (_, table) in enumerate(found) for _ in table], pa.int32())
    bad = {**dict(_bad_configs(values)), **dict(_bad_names(names))}
    if bad:
        problems = []
        for at, problem in sorted(bad.items()):
            topic = names[at].as_py().decode(errors="backslashreplace")
            told = {"topic": topic, "problem": f"topic {topic!r} {problem}"}
            problems.append({**told, **found[brokers[at].as_py()][0]})
        yield rows(ROUTES, registry, problems)
        good = pa.array([at for at in range(len(names)) if at not in bad], pa.int64())
        names, values, brokers = names.take(good), values.take(good), brokers.take(good)
    if len(names):
        yield _good_rows(registry, names.cast(pa.string()), values, brokers, [facts for facts, _ in found])


def _good_rows(
    registry: str, names: pa.Array, values: pa.Array, brokers: pa.Array, facts: Sequence[Facts]
) -> pa.RecordBatch:
    encoded = values.dictionary_encode()
    configs = [_config(value) for value in encoded.dictionary.to_pylist()]
    columns: dict[str, pa.Array] = {"topic": names}
    for column in CONFIG_FIELDS.values():
        of_configs = [getattr(config, column) for config in configs]
        if column == "attributes":
            of_configs = [list(attributes.items()) for attributes in of_configs]
        columns[column] = pa.array(of_configs, _ROUTES.field(column).type).take(encoded.indices)
    for column in facts[0]:
        of_brokers = pa.array([one[column] for one in facts], _ROUTES.field(column).type)
        columns[column] = of_brokers.take(brokers)
    columns["registry"] = pa.repeat(pa.scalar(registry), len(names))
    columns["problem"] = pa.nulls(len(names), pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in _ROUTES.names], schema=_ROUTES)


@lru_cache(maxsize=_MAX_CONFIGS)
def _config(value: bytes) -> TopicConfig | None:
    """Return the configuration that stands in a table; None = it is none."""
    try:
        return decode_config("", "any", value)
    except CorruptData:
        return None


def _bad_configs(values: pa.Array) -> Iterator[tuple[int, str]]:
    """Yield the places of what is no configuration, and why; each value is looked at once."""
    bad = [value for value in values.unique().to_pylist() if _config(value) is None]
    for at in pc.indices_nonzero(pc.is_in(values, pa.array(bad, pa.binary()))).to_pylist():
        yield at, f"has the configuration {values[at].as_py()[:80]!r}, which is none"


def _bad_names(names: pa.Array) -> Iterator[tuple[int, str]]:
    """Yield the places of what cannot be the name of a topic, and why."""
    try:
        text = names.cast(pa.string())
    except pa.ArrowInvalid:
        for at, raw in enumerate(names.to_pylist()):
            try:
                check_name("topicName", raw.decode())
            except UnicodeDecodeError:
                yield at, "is no UTF-8"
            except InvalidInput as error:
                yield at, str(error)
        return
    yield from check_names("topicName", text)


def check_names(what: str, names: pa.Array) -> Iterator[tuple[int, str]]:
    """Yield the places of what cannot be the name of a topic or a cluster, and why; null is none."""
    # Arrow looks at all of them at once; only what it does not know for sure is looked at one by one.
    suspicious = pc.or_(
        pc.or_(pc.match_substring_regex(names, _IN_NO_NAME), pc.invert(pc.string_is_ascii(names))),
        pc.or_(pc.greater(pc.binary_length(names), MAX_NAME_BYTES), pc.equal(pc.binary_length(names), 0)),
    )
    for at in pc.indices_nonzero(pc.fill_null(suspicious, fill_value=True)).to_pylist():
        try:
            check_name(what, names[at].as_py())
        except InvalidInput as error:
            yield at, str(error)


def rows(table: Table, registry: str, found: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return a batch of rows, in which what is not given is null."""
    return pa.RecordBatch.from_pylist([{"registry": registry, **row} for row in found], schema=table.arrow)


def replica_row(group_key: str, replica: Replica, topics: int) -> dict[str, Any]:
    """Return a row of REPLICAS, but for its registry; what cannot be read is in its `problem`."""
    name, number = replica.broker_name, replica.broker_id
    lease = decode_lease(replica.lease) if replica.lease is not None else None
    row: dict[str, Any] = {
        "broker": name,
        "broker_id": number,
        "cluster": replica.cluster,
        "epoch": replica.epoch if lease is None else lease[0],
        "address": None if lease is None else lease[1],
        "alive": lease is not None,
        "lease_left_ms": None if lease is None else replica.left_ms,
        "wiped": replica.wiped,
        "topics": topics,
    }
    if replica.lease is not None and lease is None:
        row["problem"] = f"the lease of {name}:{number} is {replica.lease[:80]!r}, which is none"
    if replica.member is None:
        return row
    try:
        member = decode_broker(group_key, name, number, replica.cluster or "unknown", replica.member)
    except CorruptData as error:
        return row | {"problem": str(error)}
    address = row["address"] or member.address
    return row | {"address": address, "ha_address": member.ha_address, "zone": member.zone_name}
