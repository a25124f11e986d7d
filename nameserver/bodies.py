"""The bodies of requests, read into the nouns of the registry.

Every error is a BodyError that names the field: its text can be the remark of the answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, Final

from ..registry import DataVersion, InvalidInput, QueueMapping, TopicConfig, codec
from ..registry.checks import are_usual_names, check_name, whole_number
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
_SHAPE: Final = tuple(TOPIC_FIELDS)[1:-1]  # in the order of TopicConfig, without name and attributes
_shape_of: Final = itemgetter(*_SHAPE)
_NO_ATTRIBUTES: Final[dict[str, str]] = {}
_DEFAULTS: Final = (16, 16, 6, 0, False, "SINGLE_TAG", _NO_ATTRIBUTES)
_QUEUE_FIELDS: Final = ("brokerName", "readQueueNums", "writeQueueNums", "perm", "topicSysFlag")


@dataclass(frozen=True, slots=True)
class RegisterBody:
    """What a broker registers (RocketMQ: RegisterBrokerBody)."""

    topics: dict[str, bytes] = field(default_factory=dict)
    """Encoded configurations, the same object for all topics of a shape: a broker has few."""

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
    previous: Mapping[str, bytes] | None = None,
) -> RegisterBody:
    """Return what a broker of a release registers; raises BodyError.

    A compressed body is read even if its label says that it is not: brokers of 5.x send it so.
    `previous` are the topics that the broker registered before: a static one keeps its queue mapping when
    none is sent, as in RocketMQ; a mapping without its topic, as at the end of a split registration, is given
    to it.
    Mappings that name another broker than `broker_name` are refused, with their topics.
    """
    topics = _Topics(previous or {}, broker_name)
    if version < _V3_0_11:
        alone = {**_object("body", _json("body", body) if body else None), _MAPPINGS: None}
        return topics.registered(_wrapper("body", alone, topics), None)
    if not body:
        return RegisterBody()
    if compressed or body.startswith(_ZLIB):
        return _compressed(CompressedParts(body), topics, with_mappings=version >= _V5_0_0)
    root = _object("body", _json("body", body))
    wrapper = root.get("topicConfigSerializeWrapper")
    sent = _wrapper("topicConfigSerializeWrapper", wrapper, topics)
    return topics.registered(sent, _filter_servers(root.get("filterServerList", [])))


def data_version(body: bytes) -> DataVersion | None:
    """Return the DataVersion that is a body, or None for one that equals none; raises BodyError.

    That is an empty one, null, and one without a time stamp, which in RocketMQ has that of this moment.
    """
    found = _object("dataVersion", _json("dataVersion", body) if body else None)
    version = _data_version(found)
    return None if found.get("timestamp") is None else version


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

    def __init__(self, previous: Mapping[str, bytes], broker_name: str | None) -> None:
        self._previous = previous
        self._broker_name = broker_name
        self._topics: dict[str, bytes] = {}
        self._mappings: dict[str, QueueMapping] = {}
        self._unmapped: set[str] = set()
        self._refused: list[str] = []
        self._more = 0
        self._shapes: dict[object, bytes] = {}

    def add_all(self, configs: Mapping[str, Any]) -> None:
        """Take the TopicConfigs of a table: all at once, unless one of them is odd."""
        try:
            found = self._usual(configs.values())
        except (KeyError, TypeError, AttributeError, InvalidInput):
            found = {}
        if len(found) == len(configs):  # else a name stands twice
            self._topics.update(found)
            return
        for key, value in configs.items():
            self.add(key, value)

    def _usual(self, values: Collection[dict[str, Any]]) -> dict[str, bytes]:
        """Return the topics of a table, or none, or raise, where one of them is to be looked at by itself."""
        names = [value["topicName"] for value in values]
        attributes = [value.get("attributes") for value in values]  # 4.9 has none
        kept = {codec.mapping_of(config) for config in {*self._previous.values()}} - {b""}
        if kept or not are_usual_names(names) or not {*map(type, attributes)} <= {dict, type(None)}:
            return {}
        shapes: Iterable[tuple[Any, ...]] = map(_shape_of, values)
        if any(attributes):
            shapes = ((*shape, *(of or {}).items()) for shape, of in zip(shapes, attributes, strict=True))
        return dict(zip(names, map(cache(_usual_config), shapes), strict=True))

    def add(self, key: str, value: object) -> None:
        """Take one TopicConfig, with the names that RocketMQ gives its fields."""
        if not isinstance(value, dict):
            self.refuse(key, f"expected an object, got {value!r:.{_SHOWN}}")
            return
        name, attributes = value.get("topicName"), value.get("attributes")
        try:
            shape = _shape_of(value)
        except KeyError:
            shape = tuple(map(value.get, _SHAPE))
        if isinstance(name, str):
            self.add_values(name, shape, attributes)
        else:
            self.refuse(key, f"topicName: expected a string, got {name!r:.40}")

    def add_values(self, name: str, shape: tuple[Any, ...], attributes: object) -> None:
        """Take one topic, by the values of its fields in their order; None = the default."""
        if name in self._topics:
            self.refuse(name, "stands twice")
            return
        try:
            config = self._config(name, shape, attributes)
        except InvalidInput as error:
            self.refuse(name, str(error))
            return
        old = self._previous.get(name)
        if old is not None and old != config and (mapping := codec.mapping_of(old)):
            config = codec.with_mapping(config, mapping)
        self._topics[name] = config

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
            config = self._topics.get(name) or self._previous.get(name)
            if config is None:
                self.refuse(name, "a queue mapping, and the topic itself was never registered")
            else:
                self._topics[name] = codec.with_mapping(config, codec.encode_mapping(mapping))
        refused = [*self._refused, *([f"and {self._more} more"] if self._more else ())]
        return RegisterBody(self._topics, version, filter_servers, tuple(refused))

    def _config(self, name: str, shape: tuple[Any, ...], attributes: object) -> bytes:
        """Return the configuration of a topic; each shape is checked and encoded once."""
        key = shape, tuple(attributes.items()) if isinstance(attributes, dict) else attributes
        try:
            # What is equal is what RocketMQ would understand, too: it takes true for 1.
            known = self._shapes.get(key)
        except TypeError:  # holds a list or a table, which is refused by its field's name
            return _encoded(name, (*shape, attributes))
        if known is None:
            known = self._shapes[key] = _encoded(name, (*shape, attributes))
        check_name("topicName", name)
        return known

    def _mapping(self, value: object) -> QueueMapping:
        fields = _object("TopicQueueMappingInfo", value)
        bname = fields.get("bname")
        if self._broker_name is not None and bname not in (self._broker_name, None):
            raise BodyError(f"bname: {bname!r:.{_SHOWN}} is another broker than {self._broker_name!r}")
        ids = _object("currIdMap", fields.get("currIdMap"))
        named = {ours: fields[key] for key, ours in _MAPPING_FIELDS.items() if fields.get(key) is not None}
        current = {whole_number(f"currIdMap: {key!r:.40}", key): physical for key, physical in ids.items()}
        return QueueMapping(**{"total_queues": 0, "epoch": 0, **named}, current_ids=current)


def _wrapper(place: str, value: object, topics: _Topics) -> DataVersion:
    """Read a TopicConfigSerializeWrapper; return its DataVersion."""
    fields = _object(place, value)
    configs = _object("topicConfigTable", fields.get("topicConfigTable"))
    mappings = _object(_MAPPINGS, fields.get(_MAPPINGS))
    check_number("topics", len(configs))
    check_number("queue mappings", len(mappings))
    topics.add_all(configs)
    for topic, mapping in mappings.items():
        topics.add_mapping(topic, mapping)
    return _data_version(fields.get("dataVersion"))


def _compressed(parts: CompressedParts, topics: _Topics, *, with_mappings: bool) -> RegisterBody:
    """Read a compressed body (RocketMQ: RegisterBrokerBody.decode).

    It says neither topicSysFlag nor order. Attributes may hold blanks, at which RocketMQ's own reading ends.
    """
    version = _data_version(_json("dataVersion", parts.text("dataVersion")))
    shapes: dict[str, tuple[tuple[Any, ...], object]] = {}
    for text in parts.texts("topics"):
        name, _, rest = text.decode("utf-8", "replace").partition(" ")
        try:
            values = shapes[rest]
        except KeyError:
            try:
                values = shapes[rest] = _of_shape(rest)
            except InvalidInput as error:
                topics.refuse(name, str(error))
                continue
        topics.add_values(name, *values)
    filter_servers = _filter_servers(_json("filterServerList", parts.text("filterServerList")))
    for text in parts.texts("queue mappings") if with_mappings else ():
        info = _object("TopicQueueMappingInfo", _json("TopicQueueMappingInfo", text))
        topic = info.get("topic")
        if not isinstance(topic, str):
            raise BodyError(f"TopicQueueMappingInfo: topic: expected a string, got {topic!r:.{_SHOWN}}")
        topics.add_mapping(topic, info)
    return topics.registered(version, filter_servers)


def _of_shape(text: str) -> tuple[tuple[Any, ...], object]:
    """Return the shape of a topic, and its attributes; raises InvalidInput."""
    found = text.split(" ", 4)
    if len(found) < 4:  # noqa: PLR2004 - as many as name, queues, permission and filter type are
        raise BodyError(f"{text!r:.80} is no TopicConfig")
    reads, writes, perm = map(whole_number, _SHAPE, found[:3])
    attributes = None
    if len(found) > 4:  # noqa: PLR2004
        with suppress(ValueError):  # RocketMQ does without them, too
            attributes = fastjson.loads(found[4])
    shape = reads, writes, perm, 0, False, found[3]
    return shape, attributes if isinstance(attributes, dict) else {}


def _usual_config(shape: tuple[Any, ...]) -> bytes:
    """Return the encoded configuration of topics of a shape, behind which attributes stand."""
    size = len(_SHAPE)
    return _encoded("usual", (*shape[:size], dict(shape[size:])))


def _encoded(name: str, values: tuple[Any, ...]) -> bytes:
    """Return the encoded configuration of a topic, by the values of its fields; raises InvalidInput."""
    given: list[Any] = [
        default if value is None else value for value, default in zip(values, _DEFAULTS, strict=True)
    ]
    return codec.encode_config(TopicConfig(name, *given))


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
