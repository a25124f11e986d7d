"""What a broker says about its topics and their queue mappings, with every problem and where it is.

The same objects stand in its files, topics.json and topicQueueMapping.json, and in its answers (RocketMQ:
TopicConfigManager, TopicQueueMappingManager).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

from ...registry import DataVersion, InvalidInput, Perm, QueueMapping, TopicConfig
from ...registry.model import TOPIC_FIELDS, VERSION_FIELDS
from ...remoting import fastjson
from .json_members import JsonText

LARGE_BYTES: Final = 32_768
"""A table that is larger is parsed in a thread, so that no heartbeat waits: 100,000 topics take a second."""

_ALL_PERMITTED: Final = int(Perm.READ | Perm.WRITE)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ANY_NAME: Final = "t"
_THEIRS: Final = tuple(TOPIC_FIELDS)  # the name is the first
_OURS: Final = tuple(TOPIC_FIELDS.values())
_values_of: Final[Callable[[TopicConfig], tuple[Any, ...]]] = attrgetter(*_OURS)
_TABLE: Final = "$.topicConfigTable"
_MAPPINGS: Final = "topicQueueMappingInfoMap"
"""What the file calls the details, in which the queues stand with their whole history."""

_SHOWN: Final = 80
_LISTED: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class TopicTable:
    """One state of a broker's topic table."""

    topics: Mapping[str, TopicConfig] = field(repr=False)
    version: DataVersion = field(default_factory=DataVersion)
    odd: tuple[str, ...] = ()
    """What is wrong with single topics, which are as they were before, or left out."""

    def __str__(self) -> str:
        return f"the {len(self.topics)} topics"


@dataclass(frozen=True, slots=True, eq=False)
class MappingTable:
    """One state of a broker's queue mappings, by topic."""

    mappings: Mapping[str, QueueMapping] = field(repr=False)
    version: DataVersion = field(default_factory=DataVersion)
    odd: tuple[str, ...] = ()
    """Always empty: a static topic without its mapping would be taken for another one."""

    def __str__(self) -> str:
        return f"the {len(self.mappings)} queue mappings"


class TopicsInvalid(InvalidInput):
    """A table that cannot be used; each of its `problems` begins with the JSON path."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def parse(content: bytes | memoryview, previous: TopicTable | None = None) -> TopicTable:
    """Return the topics by the name inside each; raises TopicsInvalid with all the problems.

    A topic that makes no sense takes no other one away: it is as in `previous` or left out, and the table
    says so. Topics that equal those of `previous` are the same objects: comparing the tables is cheap.
    """
    reader = TopicsReader(previous)
    try:
        _read(JsonText(content), reader)
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise TopicsInvalid([f"$: is no JSON: {error}"]) from None
    return reader.table()


def parse_mappings(content: bytes | memoryview, previous: MappingTable | None = None) -> MappingTable:
    """Return what a topicQueueMapping.json says; raises TopicsInvalid with all the problems.

    Mappings that equal those of `previous` are the same objects.
    """
    text = bytes(content)
    if not text.strip():
        raise TopicsInvalid(["$: the file is empty"])
    try:
        root = fastjson.loads(text)
    except ValueError as error:
        raise TopicsInvalid([f"$: is no JSON: {error}"]) from None
    problems: list[str] = []
    fields = _object("$", root, problems)
    version = version_at("$.dataVersion", fields.get("dataVersion"), problems)
    if not problems and _MAPPINGS not in fields:
        problems.append(f"$.{_MAPPINGS}: is missing")
    found = mappings_at(f"$.{_MAPPINGS}", fields.get(_MAPPINGS) or {}, problems)
    if problems:
        raise TopicsInvalid(problems)
    known = previous.mappings if previous else {}
    return MappingTable({n: known[n] if known.get(n) == new else new for n, new in found.items()}, version)


def effective(
    table: TopicTable,
    mappings: Mapping[str, QueueMapping],
    broker_permission: int,
    previous: TopicTable | None = None,
) -> TopicTable:
    """Return the table as the broker would register it: with queue mappings, and less what is not permitted.

    A broker that is not both readable and writable takes from its topics what it does not permit itself
    (RocketMQ: BrokerController.registerBrokerAll, which loses their system flags there; here they stay).
    Topics that equal those of `previous` are the same objects.
    """
    masked = broker_permission & _ALL_PERMITTED != _ALL_PERMITTED
    if not masked and not mappings:
        return table
    known = previous.topics if previous else {}
    topics = dict(table.topics)
    for name in topics if masked else mappings.keys() & topics.keys():
        config = topics[name]
        perm = config.perm & broker_permission if masked else config.perm
        new = replace(config, perm=perm, queue_mapping=mappings.get(name, config.queue_mapping))
        old = known.get(name)
        topics[name] = old if old is not None and old == new else new
    return TopicTable(topics, table.version)


class TopicsReader:
    """Builds a table from the JSON values of its topics, one after the other."""

    def __init__(self, previous: TopicTable | None = None) -> None:
        self.version = DataVersion()
        self.problems: list[str] = []
        """Of the table as a whole."""

        self._odd: list[str] = []
        self._known: Mapping[str, TopicConfig] = previous.topics if previous else {}
        self._topics: dict[str, TopicConfig] = {}
        self._keys: dict[str, str] = {}  # of the topics that have another name inside
        self._shared: dict[object, Any] = {}

    def read_version(self, value: object) -> None:
        """Read the value of dataVersion."""
        self.version = version_at("$.dataVersion", value, self.problems)

    def read_topic(self, key: str, value: object) -> None:
        """Read the value under a key of topicConfigTable."""
        config = self._config(key, value) or self._known.get(key)
        if config is None:
            return
        name = config.topic_name
        if name in self._topics:
            place = f"{_TABLE}{step(self._keys.get(name, name))}"
            self._odd.append(f"{_TABLE}{step(key)}.topicName: {name!r} stands already at {place}")
            return
        self._topics[name] = config
        if key != name:
            self._keys[name] = key

    def table(self) -> TopicTable:
        """Return the table; raise TopicsInvalid with all the problems."""
        if not (self._topics or self._odd or self.problems):
            # A broker always has its system topics: this would wipe a registration.
            self.problems.append(f"{_TABLE}: holds no topic, and every broker has some of its own")
        if self.problems or not self._topics:
            raise TopicsInvalid([*self.problems, *self._odd])
        return TopicTable(self._topics, self.version, tuple(self._odd))

    def _config(self, key: str, value: object) -> TopicConfig | None:
        """Return the topic under a key; None = it makes no sense, and why is noted."""
        place = f"{_TABLE}{step(key)}"
        if not isinstance(value, dict):
            self._odd.append(f"{place}: expected an object, got {shown(value)}")
            return None
        given = tuple(map(value.get, _THEIRS))
        old = self._known.get(given[0]) if isinstance(given[0], str) else None
        if old is not None and _same(_values_of(old), given):
            return old
        values = {ours: found for ours, found in zip(_OURS, given, strict=True) if found is not None}
        if "topic_name" not in values:
            self._odd.append(f"{place}.topicName: is missing")
        else:
            try:
                config = TopicConfig(**self._compact(values))
            except InvalidInput:
                pass
            else:
                return old if old is not None and config == old else config
        self._odd.extend(_each_problem(place, TopicConfig, values))
        return None

    def _compact(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with one object for all that are equal: tables of 100,000 topics are held."""
        kind = values.get("topic_filter_type")
        if isinstance(kind, str):
            values["topic_filter_type"] = self._shared.setdefault(kind, kind)
        attributes = values.get("attributes")
        if isinstance(attributes, dict) and all(isinstance(text, str) for text in attributes.values()):
            values["attributes"] = self._shared.setdefault(tuple(sorted(attributes.items())), attributes)
        return values


def version_at(place: str, value: object, problems: list[str]) -> DataVersion:
    """Return the DataVersion that stands at a JSON path; what is wrong with it is added to `problems`."""
    fields = {} if value is None else _object(place, value, problems)
    values = {ours: fields[key] for key, ours in VERSION_FIELDS.items() if fields.get(key) is not None}
    try:
        return DataVersion(**values)
    except InvalidInput:
        problems.extend(_each_problem(place, DataVersion, values))
        return DataVersion()


def step(key: str) -> str:
    """Return the step of a JSON path that leads to `key`."""
    return f".{key}" if _PLAIN_NAME.fullmatch(key) else f"[{json.dumps(key)}]"


def shown(value: object) -> str:
    """Return a value as a message shows it: not more than its beginning."""
    return f"{value!r:.{_SHOWN}}"


def briefly(problems: Sequence[str], between: str = "\n  ") -> str:
    """Return problems as a message shows them, in a line each: not more than the first ten."""
    more = [f"and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
    return between.join([*problems[:_LISTED], *more])


def _read(text: JsonText, reader: TopicsReader) -> None:
    if text.at_end():
        raise TopicsInvalid(["$: the file is empty"])
    if not text.at_object():
        raise TopicsInvalid([f"$: expected an object, got {shown(text.value())}"])
    missing = True
    for key in text.members():
        if key == "topicConfigTable":
            missing = False
            _read_topics(text, reader)
        elif key == "dataVersion":
            reader.read_version(text.value())
        else:
            text.value()
    text.end()
    if missing:
        reader.problems.append(f"{_TABLE}: is missing")


def _read_topics(text: JsonText, reader: TopicsReader) -> None:
    if not text.at_object():
        reader.problems.append(f"{_TABLE}: expected an object, got {shown(text.value())}")
        return
    for key in text.members():
        reader.read_topic(key, text.value())


def _same(held: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    """Whether a topic has these values: cheaper than to build it and to compare."""
    return held == given and [*map(type, held)] == [*map(type, given)]  # True is 1 to Python


def _each_problem(place: str, kind: type[TopicConfig | DataVersion], values: dict[str, Any]) -> Iterator[str]:
    """Yield the problem of every field: the model stops at the first, so each field is checked alone."""
    needed = {"topic_name": _ANY_NAME} if kind is TopicConfig else {}
    for name, value in values.items():
        try:
            kind(**{**needed, name: value})
        except InvalidInput as error:
            yield f"{place}.{error}"


def mappings_at(place: str, value: object, problems: list[str]) -> dict[str, QueueMapping]:
    """Return the mappings by the key of each, which is the topic; what is wrong is added to `problems`."""
    found = {}
    for topic, one in _object(place, value, problems).items():
        mapping = _mapping_at(f"{place}{step(topic)}", one, problems)
        if mapping is not None:
            found[topic] = mapping
    return found


def _mapping_at(place: str, value: object, problems: list[str]) -> QueueMapping | None:
    """Return one mapping, from a broker's detail or from what it registers; None = something is wrong.

    As a broker does for a name server, the current queues are taken from the hosted ones, and of the rest
    only the number and the epoch (RocketMQ: TopicQueueMappingDetail.cloneAsMappingInfo).
    """
    before = len(problems)
    fields = _object(place, value, problems)
    hosted = fields.get("hostedQueues")
    if hosted is None:
        current = dict(_numbered(f"{place}.currIdMap", fields.get("currIdMap") or {}, problems))
    else:
        current = dict(_current_ids(f"{place}.hostedQueues", hosted, fields.get("bname"), problems))
    if len(problems) > before:
        return None
    try:
        return QueueMapping(fields.get("totalQueues") or 0, fields.get("epoch") or 0, current)
    except InvalidInput as error:
        problems.append(f"{place}.{error}")
        return None


def _current_ids(place: str, hosted: object, bname: object, problems: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the logical and the physical id of each queue whose last place is this broker."""
    for logical, places in _numbered(place, hosted, problems):
        if not isinstance(places, list):
            problems.append(f"{place}.{logical}: expected a list, got {shown(places)}")
        elif places:
            where = f"{place}.{logical}[{len(places) - 1}]"
            last = _object(where, places[-1], problems)
            if last.get("bname") != bname:
                continue
            physical = last.get("queueId", 0)
            if isinstance(physical, int) and not isinstance(physical, bool):
                yield logical, physical
            else:
                problems.append(f"{where}.queueId: expected a whole number, got {shown(physical)}")


def _numbered(place: str, value: object, problems: list[str]) -> Iterator[tuple[int, Any]]:
    """Yield the members of an object whose keys are whole numbers."""
    for key, item in _object(place, value, problems).items():
        if key.isascii() and key.isdecimal():
            yield int(key), item
        else:
            problems.append(f"{place}{step(key)}: expected a whole number as the key")


def _object(place: str, value: object, problems: list[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(f"{place}: expected an object, got {shown(value)}")
    return {}
