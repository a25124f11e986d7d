"""The bodies of requests, read into the nouns of the registry.

Every error is a BodyError that names the field: its text can be the remark of the answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any, Final

from ..registry import DataVersion, InvalidInput, QueueMapping, TopicConfig
from ..registry.model import TOPIC_FIELDS, VERSION_FIELDS, QueueData
from ..remoting import fastjson
from ..remoting import properties as java_properties
from .compressed import BodyError, CompressedParts, check_number

_MAX_REFUSED: Final = 100
_SHOWN: Final = 300
_V3_0_11: Final = 37
"""Brokers of earlier releases send the topics alone, without filter servers."""

_V5_0_0: Final = 413
"""Brokers of earlier releases have no static topics."""

_ZLIB: Final = b"\x78"
"""How a zlib stream begins, and no JSON text."""

_MAPPINGS: Final = "topicQueueMappingInfoMap"
_MAPPING_FIELDS: Final = {"totalQueues": "total_queues", "epoch": "epoch", "scope": "scope", "dirty": "dirty"}
_LONGEST_NUMBER: Final = 20
_THEIRS: Final = tuple(TOPIC_FIELDS)  # in the order of TopicConfig
_NO_ATTRIBUTES: Final[dict[str, str]] = {}
_DEFAULTS: Final = (16, 16, 6, 0, False, "SINGLE_TAG", _NO_ATTRIBUTES)
_all_fields: Final = itemgetter(*_THEIRS)
_values_of: Final = attrgetter(*TOPIC_FIELDS.values())
_QUEUE_FIELDS: Final = ("brokerName", "readQueueNums", "writeQueueNums", "perm", "topicSysFlag")


@dataclass(frozen=True, slots=True)
class RegisterBody:
    """What a broker registers (RocketMQ: RegisterBrokerBody)."""

    topics: dict[str, TopicConfig] = field(default_factory=dict)
    version: DataVersion = field(default_factory=DataVersion)
    filter_servers: tuple[str, ...] | None = ()
    """None leaves those of the broker as they are."""

    refused: tuple[str, ...] = ()
    """The topics that the registry cannot hold, and why; after the first hundred only their number."""


def crc32(body: bytes) -> int:
    """Return the checksum that a broker sends in bodyCrc32 (RocketMQ: UtilAll.crc32)."""
    return zlib.crc32(body) & 0x7FFFFFFF


def registration(
    body: bytes,
    *,
    version: int,
    compressed: bool = False,
    broker_name: str | None = None,
    previous: Mapping[str, TopicConfig] | None = None,
) -> RegisterBody:
    """Return what a broker of a release registers; raises BodyError.

    A compressed body is read even if its label says that it is not: brokers of 5.x send it so.
    `previous` are the topics that the broker registered before. Those that are equal are the same objects,
    which takes a third of the time and no memory. A static topic keeps its queue mapping when none is sent,
    as in RocketMQ; a mapping without its topic, as at the end of a split registration, is given to it.
    Mappings that name another broker than `broker_name` are refused, with their topics.
    """
    topics = _Topics(previous or {}, broker_name)
    if version < _V3_0_11:
        return topics.registered(_wrapper("body", _json("body", body) if body else None, topics), None)
    if not body:
        return RegisterBody()
    if compressed or body.startswith(_ZLIB):
        return _compressed(CompressedParts(body), topics, with_mappings=version >= _V5_0_0)
    root = _object("body", _json("body", body))
    wrapper = root.get("topicConfigSerializeWrapper")
    sent = _wrapper("topicConfigSerializeWrapper", wrapper, topics)
    return topics.registered(sent, _filter_servers(root.get("filterServerList", [])))


def data_version(body: bytes) -> DataVersion | None:
    """Return the DataVersion that is a body, or None for an empty one; raises BodyError."""
    return _data_version(_json("dataVersion", body)) if body else None


def topic_route_queues(body: bytes) -> list[QueueData]:
    """Return the queues that a broker registers of one topic; raises BodyError."""
    given = _object("body", _json("body", body)).get("queueDatas") if body else None
    if given is not None and not isinstance(given, list):
        raise BodyError(f"queueDatas: expected a list, got {given!r:.{_SHOWN}}")
    return [_queue_data(f"queueDatas[{place}]", one) for place, one in enumerate(given or ())]


def properties(body: bytes) -> dict[str, str]:
    """Return the settings in a Java properties text; raises BodyError."""
    try:
        return {one.key: one.value for one in java_properties.parse(body)}
    except java_properties.MalformedEscape as error:
        raise BodyError(f"properties: line {error.line}: {error}") from None


class _Topics:
    """The topics of one body, and what of them cannot be used."""

    def __init__(self, previous: Mapping[str, TopicConfig], broker_name: str | None) -> None:
        self._previous = previous
        self._broker_name = broker_name
        self._topics: dict[str, TopicConfig] = {}
        self._mappings: dict[str, QueueMapping] = {}
        self._unmapped: set[str] = set()
        self._refused: list[str] = []
        self._more = 0
        self._shared: dict[object, Any] = {}

    def add(self, key: str, value: object) -> None:
        """Take one TopicConfig, with the names that RocketMQ gives its fields."""
        if not isinstance(value, dict):
            self.refuse(key, f"expected an object, got {value!r:.{_SHOWN}}")
            return
        try:
            values = _all_fields(value)
        except KeyError:  # 4.9 has no attributes
            values = tuple(map(value.get, _THEIRS))
        if isinstance(values[0], str):
            self.add_values(values)
        else:
            self.refuse(key, f"topicName: expected a string, got {values[0]!r:.40}")

    def add_values(self, values: tuple[Any, ...]) -> None:
        """Take one topic, by the values of its fields in their order; None = the default."""
        name = values[0]
        old = self._previous.get(name)
        if name in self._topics:
            self.refuse(name, "stands twice")
        # What is equal is what RocketMQ would understand, too: it takes true for 1.
        elif old is not None and _values_of(old) == values:
            self._topics[old.topic_name] = old
        else:
            try:
                config = self._config(*values)
            except InvalidInput as error:
                self.refuse(name, str(error))
            else:
                self._topics[name] = config if old is None else _or_old(config, old.queue_mapping, old)

    def add_mapping(self, topic: str, value: object) -> None:
        """Take one TopicQueueMappingInfo; a topic whose mapping makes no sense is refused."""
        try:
            self._mappings[topic] = self._mapping(value)
        except InvalidInput as error:
            self._unmapped.add(topic)
            self.refuse(topic, f"queue mapping: {error}")

    def refuse(self, name: str, why: str) -> None:
        """Note a topic that is left out."""
        if len(self._refused) < _MAX_REFUSED:
            self._refused.append(f"topic {name!r:.{_SHOWN}}: {why:.{_SHOWN}}")
        else:
            self._more += 1

    def registered(self, version: DataVersion, filter_servers: tuple[str, ...] | None) -> RegisterBody:
        """Return all that was taken; static topics have their mappings."""
        for name in self._unmapped & self._topics.keys():
            del self._topics[name]
        for name, mapping in self._mappings.items():
            old = self._previous.get(name)
            config = self._topics.get(name, old)
            if config is None:
                self.refuse(name, "a queue mapping, and the topic itself was never registered")
            else:
                self._topics[name] = _or_old(config, mapping, old)
        refused = [*self._refused, *([f"and {self._more} more"] if self._more else ())]
        return RegisterBody(self._topics, version, filter_servers, tuple(refused))

    def _config(self, name: str, *values: Any) -> TopicConfig:
        """Return a topic that shares with the others what is equal: tables of 100,000 topics are held."""
        if None in values:
            pairs = zip(values, _DEFAULTS, strict=True)
            values = tuple([default if value is None else value for value, default in pairs])
        reads, writes, perm, flag, order, kind, attributes = values
        if isinstance(kind, str):
            kind = self._shared.setdefault(kind, kind)
        if attributes == {}:
            attributes = _NO_ATTRIBUTES
        elif isinstance(attributes, dict) and all(isinstance(text, str) for text in attributes.values()):
            attributes = self._shared.setdefault(tuple(sorted(attributes.items())), attributes)
        return TopicConfig(name, reads, writes, perm, flag, order, kind, attributes)

    def _mapping(self, value: object) -> QueueMapping:
        fields = _object("TopicQueueMappingInfo", value)
        bname = fields.get("bname")
        if self._broker_name is not None and bname not in (self._broker_name, None):
            raise BodyError(f"bname: {bname!r:.{_SHOWN}} is another broker than {self._broker_name!r}")
        ids = _object("currIdMap", fields.get("currIdMap"))
        named = {ours: fields[key] for key, ours in _MAPPING_FIELDS.items() if fields.get(key) is not None}
        current = {_whole(f"currIdMap: {key!r:.40}", key): physical for key, physical in ids.items()}
        return QueueMapping(**{"total_queues": 0, "epoch": 0, **named}, current_ids=current)


def _wrapper(place: str, value: object, topics: _Topics) -> DataVersion:
    """Read a TopicConfigSerializeWrapper; return its DataVersion."""
    fields = _object(place, value)
    configs = _object("topicConfigTable", fields.get("topicConfigTable"))
    mappings = _object(_MAPPINGS, fields.get(_MAPPINGS))
    check_number("topics", len(configs))
    check_number("queue mappings", len(mappings))
    for key, config in configs.items():
        topics.add(key, config)
    for topic, mapping in mappings.items():
        topics.add_mapping(topic, mapping)
    return _data_version(fields.get("dataVersion"))


def _compressed(parts: CompressedParts, topics: _Topics, *, with_mappings: bool) -> RegisterBody:
    """Read a compressed body (RocketMQ: RegisterBrokerBody.decode).

    It says neither topicSysFlag nor order. Attributes may hold blanks, at which RocketMQ's own reading ends.
    """
    version = _data_version(_json("dataVersion", parts.text("dataVersion")))
    shapes: dict[str, tuple[Any, ...]] = {}
    for text in parts.texts("topics"):
        name, _, rest = text.decode("utf-8", "replace").partition(" ")
        try:
            values = shapes[rest]
        except KeyError:
            try:
                values = shapes[rest] = _of_shape(rest)
            except BodyError as error:
                topics.refuse(name, str(error))
                continue
        topics.add_values((name, *values))
    filter_servers = _filter_servers(_json("filterServerList", parts.text("filterServerList")))
    for text in parts.texts("queue mappings") if with_mappings else ():
        info = _object("TopicQueueMappingInfo", _json("TopicQueueMappingInfo", text))
        topic = info.get("topic")
        if not isinstance(topic, str):
            raise BodyError(f"TopicQueueMappingInfo: topic: expected a string, got {topic!r:.{_SHOWN}}")
        topics.add_mapping(topic, info)
    return topics.registered(version, filter_servers)


def _of_shape(text: str) -> tuple[Any, ...]:
    """Return the values of a topic but for its name; raises BodyError."""
    found = text.split(" ", 4)
    if len(found) < 4:  # noqa: PLR2004 - as many as name, queues, permission and filter type are
        raise BodyError(f"{text!r:.80} is no TopicConfig")
    reads, writes, perm = map(_whole, _THEIRS[1:4], found)
    attributes = None
    if len(found) > 4:  # noqa: PLR2004
        with suppress(ValueError):  # RocketMQ does without them, too
            attributes = fastjson.loads(found[4])
    return reads, writes, perm, 0, False, found[3], attributes if isinstance(attributes, dict) else {}


def _or_old(config: TopicConfig, mapping: QueueMapping | None, old: TopicConfig | None) -> TopicConfig:
    """Return a topic with a mapping, and the same object as before if it is equal."""
    new = config if config.queue_mapping == mapping else replace(config, queue_mapping=mapping)
    return old if old is not None and old == new else new


def _data_version(value: object) -> DataVersion:
    fields = _object("dataVersion", value)
    try:
        return DataVersion(
            **{ours: fields[key] for key, ours in VERSION_FIELDS.items() if fields.get(key) is not None}
        )
    except InvalidInput as error:
        raise BodyError(f"dataVersion: {error}") from None


def _queue_data(place: str, value: object) -> QueueData:
    fields = _object(place, value)
    name, *numbers = map(fields.get, _QUEUE_FIELDS)
    try:
        return QueueData(name, *(0 if number is None else number for number in numbers))  # type: ignore[arg-type]
    except InvalidInput as error:
        raise BodyError(f"{place}: {error}") from None


def _filter_servers(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(server, str) for server in value):
        raise BodyError(f"filterServerList: expected a list of strings, got {value!r:.{_SHOWN}}")
    return tuple(value)


def _json(place: str, text: bytes) -> Any:
    try:
        return fastjson.loads(text)
    except ValueError as error:
        raise BodyError(f"{place}: is no JSON: {error}") from None


def _object(place: str, value: object) -> dict[str, Any]:
    """Return an object; what is not there is an empty one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise BodyError(f"{place}: expected an object, got {value!r:.{_SHOWN}}")


def _whole(what: str, text: str) -> int:
    """Return a number as Java reads it: int() would take 1_000 and blanks, too."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER:
        return int(text)
    raise BodyError(f"{what}: expected a whole number, got {text!r:.80}")
