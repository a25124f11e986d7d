"""The route index compared with the brokers' own tables, and a broker's rows mended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from ... import codec, scripts
from ...checks import check_broker_name, check_name
from ...config import RegistryConfig
from ...errors import CorruptData, InvalidInput
from ...keys import Keys
from ...model import Change, ChangeKind
from ..base import Call, Command, Plan, Reply, script_reply
from ..routes import mget
from .checks import mend_listing
from .differences import FOREIGN, Check, Difference, DifferenceKind, RowCure, ask, run


@lru_cache(maxsize=16_384)
def _broker_of(row: bytes) -> str:
    """Return the broker that a row names; empty = it is no name of a broker, or stands alone."""
    try:
        name = row.rpartition(b" ")[0].partition(b" ")[0].decode()
        check_broker_name(name)
    except (UnicodeDecodeError, InvalidInput):
        return ""
    return name


# A broker has few shapes of topics.
@lru_cache(maxsize=65_536)
def _config_problem(config: bytes) -> str:
    try:
        codec.decode_config("", "t", config)
    except CorruptData as error:
        return error.reason.partition(": ")[2] or error.reason
    return ""


def _name_problem(name: bytes) -> str:
    try:
        check_name("topicName", name.decode())
    except (UnicodeDecodeError, InvalidInput) as error:
        return str(error)
    return ""


def _rows(index: bytes) -> list[bytes]:
    return index.split(b"\n") if index else []


def _has_row(index: bytes, broker_name: str) -> bool:
    return b"\n" + broker_name.encode() + b" " in b"\n" + index


def index_checks(keys: Keys, topics: Sequence[str]) -> Plan[list[Check]]:
    """Return what to look at again, of the route indexes of some topics."""
    if not topics:
        return []
    values = yield from mget([keys.topic(topic) for topic in topics])
    named = [dict.fromkeys(filter(None, map(_broker_of, _rows(value or b"")))) for value in values]
    wanted: dict[str, list[str]] = {}
    for topic, names in zip(topics, named, strict=True):
        for name in names:
            wanted.setdefault(name, []).append(topic)
    commands: list[Command] = [("HMGET", keys.broker_topics(name), *of) for name, of in wanted.items()]
    listed, *tables = yield from ask([("SMISMEMBER", keys.topics, *topics), *commands])
    configs: dict[tuple[str, str], Reply] = {}
    for (name, of), table in zip(wanted.items(), tables, strict=True):
        found = [FOREIGN] * len(of) if table is FOREIGN else table
        configs.update(((name, topic), config) for topic, config in zip(of, found, strict=True))
    memberships = [FOREIGN] * len(topics) if listed is FOREIGN else listed
    checks = []
    for topic, value, names, member in zip(topics, values, named, memberships, strict=True):
        check = _index_check(keys, topic, tuple(names))
        if any(check.judge(value, member, *(configs[name, topic] for name in names))):
            checks.append(check)
    return checks


def _index_check(keys: Keys, topic: str, names: Sequence[str]) -> Check:
    """Return the check of one route index, as far as its rows are of the brokers with those names."""
    key = keys.topic(topic)

    def judge(value: Reply, listed: Reply, *configs: Reply) -> Iterator[Difference]:
        if value is None or value is FOREIGN:
            return
        of = dict(zip(names, configs, strict=True))
        yield from _index_differences(key, topic, value, of)
        if listed == 0:
            text = "the topic is not in the set of topics"
            owners = (name for name, config in of.items() if config not in (None, FOREIGN))
            owner = next(owners, "")
            cure = RowCure() if owner else mend_listing(keys, keys.topics, topic, (key,))
            yield Difference(DifferenceKind.TOPIC_UNLISTED, key, text, owner, topic=topic, cure=cure)

    tables: list[Command] = [("HGET", keys.broker_topics(name), topic) for name in names]
    return Check((("GET", key), ("SISMEMBER", keys.topics, topic), *tables), judge)


def _index_differences(
    key: str, topic: str, index: bytes, configs: Mapping[str, Reply]
) -> Iterator[Difference]:
    rows: dict[str, list[bytes]] = {}
    for row in index.split(b"\n"):
        rows.setdefault(_broker_of(row), []).append(row)
    nobodys = rows.pop("", [])
    if nobodys:
        text = f"{len(nobodys)} rows are of no broker, the first is {nobodys[0][:80]!r}"
        cure = RowCure(b"\n".join(nobodys))
        yield Difference(DifferenceKind.ROW_CORRUPT, key, text, topic=topic, cure=cure)
    for name, of_broker in rows.items():
        config = configs.get(name, FOREIGN)  # a broker that was not in the first look
        if config is FOREIGN or (config is not None and _config_problem(config)):
            continue  # what the row should be, nobody knows; the table is reported
        problem = _row_problem(name, of_broker, config)
        if problem is not None:
            kind, text = problem
            yield Difference(kind, key, text, name, topic=topic, cure=RowCure())


def _row_problem(name: str, rows: Sequence[bytes], config: bytes | None) -> tuple[DifferenceKind, str] | None:
    if config is None:
        return DifferenceKind.ROW_WITHOUT_TABLE, f"has a row of {name}, whose table does not have the topic"
    if len(rows) > 1:
        return DifferenceKind.ROW_DUPLICATE, f"has {len(rows)} rows of {name}"
    expected = codec.encode_row(name.encode(), config)
    if rows[0] == expected:
        return None
    if codec.decode_index("", rows[0])[1] is not None:
        return DifferenceKind.ROW_CORRUPT, f"{rows[0][:80]!r} is no route; it should be {expected[:80]!r}"
    return DifferenceKind.ROW_STALE, f"has the row {rows[0][:80]!r}; it should be {expected[:80]!r}"


def look_at_table(keys: Keys, broker_name: str, entries: Mapping[bytes, bytes]) -> Plan[list[Difference]]:
    """Return what is wrong with some entries of a broker's own table, and with their rows."""
    bad = [name for name, config in entries.items() if _name_problem(name) or _config_problem(config)]
    topics = [name.decode() for name in entries.keys() - {*bad}]
    values = yield from mget([keys.topic(topic) for topic in topics])
    both = zip(topics, values, strict=True)
    lost = [topic for topic, value in both if value is None or not _has_row(value, broker_name)]
    checks = [
        *(_config_check(keys, broker_name, name) for name in bad),
        *(_row_check(keys, broker_name, topic) for topic in lost),
    ]
    return (yield from run(checks))


def _config_check(keys: Keys, broker_name: str, name: bytes) -> Check:
    key, topic = keys.broker_topics(broker_name), name.decode(errors="replace")

    def judge(config: Reply) -> Iterator[Difference]:
        if config is None or config is FOREIGN:
            return
        unnamed = _name_problem(name)
        problem = unnamed or _config_problem(config)
        if problem:
            what = "the broker writes it anew when it starts without its registration"
            text = f"the entry {name[:80]!r}: {problem}; {'remove it' if unnamed else what}"
            kind = DifferenceKind.CONFIG_CORRUPT
            yield Difference(kind, key, text, broker_name, topic=topic)

    return Check((("HGET", key, name),), judge)


def _row_check(keys: Keys, broker_name: str, topic: str) -> Check:
    table, index = keys.broker_topics(broker_name), keys.topic(topic)

    def judge(config: Reply, value: Reply) -> Iterator[Difference]:
        known = config not in (None, FOREIGN) and value is not FOREIGN
        if known and not _has_row(value or b"", broker_name) and not _config_problem(config):
            text = f"has no row of {broker_name}, whose table has the topic"
            yield Difference(
                DifferenceKind.ROW_MISSING, index, text, broker_name, topic=topic, cure=RowCure()
            )

    return Check((("HGET", table, topic), ("GET", index)), judge)


def mend_rows(config: RegistryConfig, broker_name: str, rows: Sequence[Difference]) -> Plan[set[str]]:
    """Make a broker's rows what its table says; return the topics whose configuration makes no row.

    The script looks at table and index itself: nothing that is written meanwhile is overwritten. Without a
    broker name, the rows that were found to be of no broker are removed. Raises NewerSchema.
    """
    keys, hopeless = Keys(config.namespace), set[str]()
    for start in range(0, len(rows), config.chunk_topics):
        part = rows[start : start + config.chunk_topics]
        _, *numbers = yield from script_reply(_mend_call(config, keys, broker_name, part))
        hopeless |= {part[number].topic for number in numbers}
    return hopeless


def _mend_call(config: RegistryConfig, keys: Keys, broker_name: str, part: Sequence[Difference]) -> Call:
    topics: dict[DifferenceKind, list[str]] = {}
    for row in part:
        topics.setdefault(row.kind, []).append(row.topic)
    added = topics.pop(DifferenceKind.ROW_MISSING, [])
    removed = topics.pop(DifferenceKind.ROW_WITHOUT_TABLE, [])
    record = Change(
        kind=ChangeKind.TOPICS,
        broker_name=broker_name,
        added=tuple(added),
        changed=tuple(chain.from_iterable(topics.values())),
        removed=tuple(removed),
        **config.signature,
    )
    prefix = keys.topic("")
    return Call(
        scripts.MEND_ROWS,
        (
            keys.broker_topics(broker_name),
            keys.topics,
            keys.changes,
            keys.schema,
            keys.broker(broker_name),
            *(prefix + row.topic for row in part),
        ),
        (
            broker_name,
            codec.encode_change(record) if broker_name else "",
            config.feed_bounds,
            len(prefix.encode()),
            *(row.cure.nobodys if isinstance(row.cure, RowCure) else b"" for row in part),
        ),
    )
