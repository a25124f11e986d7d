"""What a broker's topics.json says (RocketMQ: TopicConfigManager), with every problem and where it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

from ...registry import DataVersion, InvalidInput, Perm, QueueMapping, TopicConfig
from ...registry.model import TOPIC_FIELDS, VERSION_FIELDS
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
_SHOWN: Final = 80
_LISTED: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class TopicTable:
    """One state of a broker's topic table."""

    topics: Mapping[str, TopicConfig] = field(repr=False)
    version: DataVersion = field(default_factory=DataVersion)
    odd: tuple[str, ...] = ()
    """What is wrong with single topics, which are as they were before, or left out."""


class TopicsInvalid(InvalidInput):
    """A table that cannot be used; each of its `problems` begins with the JSON path."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def parse(content: bytes | memoryview, *, previous: Mapping[str, TopicConfig] | None = None) -> TopicTable:
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


def effective(
    table: TopicTable,
    mappings: Mapping[str, QueueMapping],
    broker_permission: int,
    *,
    previous: Mapping[str, TopicConfig] | None = None,
) -> TopicTable:
    """Return the table as the broker would register it: with queue mappings, and less what is not permitted.

    A broker that is not both readable and writable takes from its topics what it does not permit itself
    (RocketMQ: BrokerController.registerBrokerAll, which loses their system flags there; here they stay).
    Topics that equal those of `previous` are the same objects.
    """
    masked = broker_permission & _ALL_PERMITTED != _ALL_PERMITTED
    if not masked and not mappings:
        return table
    known = previous or {}
    topics = dict(table.topics)
    for name in topics if masked else mappings.keys() & topics.keys():
        config = topics[name]
        perm = config.perm & broker_permission if masked else config.perm
        made = replace(config, perm=perm, queue_mapping=mappings.get(name, config.queue_mapping))
        old = known.get(name)
        topics[name] = old if old is not None and old == made else made
    return TopicTable(topics, table.version)


class TopicsReader:
    """Makes a table from the JSON values of its topics, given one after the other."""

    def __init__(self, previous: Mapping[str, TopicConfig] | None = None) -> None:
        self.version = DataVersion()
        self.problems: list[str] = []
        """Of the table as a whole."""

        self._odd: list[str] = []
        self._known = previous or {}
        self._topics: dict[str, TopicConfig] = {}
        self._keys: dict[str, str] = {}  # of the topics that have another name inside
        self._shared: dict[object, Any] = {}

    def read_version(self, value: object) -> None:
        """Take the value of dataVersion."""
        self.version = version_at("$.dataVersion", value, self.problems)

    def read_topic(self, key: str, value: object) -> None:
        """Take the value that stands under a key of topicConfigTable."""
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
        """Return the topic that stands under a key; None = it makes no sense, and why is noted."""
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
    if value is None:
        return DataVersion()
    if not isinstance(value, dict):
        problems.append(f"{place}: expected an object, got {shown(value)}")
        return DataVersion()
    values = {ours: value[theirs] for theirs, ours in VERSION_FIELDS.items() if value.get(theirs) is not None}
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


def briefly(problems: Sequence[str], between: str) -> str:
    """Return problems as a message shows them: not more than the first ten."""
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
    """Whether a topic is made of these values, which is cheaper to see than to make it again."""
    return held == given and [*map(type, held)] == [*map(type, given)]  # True is 1 to Python


def _each_problem(place: str, kind: type[TopicConfig | DataVersion], values: dict[str, Any]) -> Iterator[str]:
    """Yield the problem of every field: the model stops at the first, so it is asked one field at a time."""
    needed = {"topic_name": _ANY_NAME} if kind is TopicConfig else {}
    for name, value in values.items():
        try:
            kind(**{**needed, name: value})
        except InvalidInput as error:
            yield f"{place}.{error}"
