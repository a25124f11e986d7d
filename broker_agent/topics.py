"""What a broker's topics.json says (RocketMQ: TopicConfigManager), with every problem and where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from ..registry import DataVersion, InvalidInput, Perm, TopicConfig
from ..registry.model import TOPIC_FIELDS, VERSION_FIELDS

__all__ = ["TopicsFile", "TopicsInvalid", "parse"]

_ALL_PERMITTED: Final = int(Perm.READ | Perm.WRITE)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_ANY_NAME: Final = "t"


@dataclass(frozen=True, slots=True, eq=False)
class TopicsFile:
    """One state of a broker's topic table."""

    topics: Mapping[str, TopicConfig] = field(repr=False)
    version: DataVersion = field(default_factory=DataVersion)


class TopicsInvalid(InvalidInput):
    """A topics.json that cannot be used; each of its `problems` begins with the JSON path."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def parse(
    content: bytes,
    *,
    previous: Mapping[str, TopicConfig] | None = None,
    broker_permission: int = _ALL_PERMITTED,
) -> TopicsFile:
    """Return the topics by the name inside each, with the permission that the broker would register.

    Topics that equal those of `previous` are the same objects, so that comparing the tables is cheap.
    Raises TopicsInvalid with all the problems.
    """
    problems: list[str] = []
    root = _object("$", _json(content), problems)
    version = _version(root.get("dataVersion"), problems)
    known = previous or {}
    table: dict[str, TopicConfig] = {}
    places: dict[str, str] = {}
    for place, config in _configs(root, problems):
        name = config.topic_name
        if name in table:
            problems.append(f"{place}.topicName: {name!r} stands already at {places[name]}")
        permitted = _permitted(config, broker_permission)
        old = known.get(name)
        table[name] = old if old == permitted and old is not None else permitted
        places[name] = place
    if not table and not problems:  # a broker always has its system topics: this would wipe a registration
        problems.append("$.topicConfigTable: holds no topic, and every broker has some of its own")
    if problems:
        raise TopicsInvalid(problems)
    return TopicsFile(table, version)


def _json(content: bytes) -> Any:
    if not content.strip():
        raise TopicsInvalid(["$: the file is empty"])
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise TopicsInvalid([f"$: is no JSON: {error}"]) from None


def _object(place: str, value: object, problems: list[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(f"{place}: expected an object, got {value!r:.80}")
    return {}


def _version(value: object, problems: list[str]) -> DataVersion:
    if value is None:
        return DataVersion()
    values = _known(_object("$.dataVersion", value, problems), VERSION_FIELDS)
    try:
        return DataVersion(**values)
    except InvalidInput:
        problems.extend(_each_problem("$.dataVersion", DataVersion, values))
        return DataVersion()


def _configs(root: dict[str, Any], problems: list[str]) -> Iterator[tuple[str, TopicConfig]]:
    """Yield the topics that are in order, each with its JSON path."""
    if "topicConfigTable" not in root:
        problems.append("$.topicConfigTable: is missing")
        return
    table = _object("$.topicConfigTable", root["topicConfigTable"], problems)
    for key, value in table.items():
        place = f"$.topicConfigTable{_step(key)}"
        if isinstance(value, dict):
            config = _config(place, _known(value, TOPIC_FIELDS), problems)
            if config is not None:
                yield place, config
        else:
            problems.append(f"{place}: expected an object, got {value!r:.80}")


def _config(place: str, values: dict[str, Any], problems: list[str]) -> TopicConfig | None:
    if "topic_name" in values:
        try:
            return TopicConfig(**values)
        except InvalidInput:
            problems.extend(_each_problem(place, TopicConfig, values))
    else:
        problems.append(f"{place}.topicName: is missing")
        problems.extend(_each_problem(place, TopicConfig, values))
    return None


def _known(value: dict[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return what is given for the fields; null means the default, as it does to RocketMQ's parser."""
    return {ours: value[theirs] for theirs, ours in fields.items() if value.get(theirs) is not None}


def _each_problem(place: str, kind: type[TopicConfig | DataVersion], values: dict[str, Any]) -> Iterator[str]:
    """Yield the problem of every field: the model stops at the first, so it is asked one field at a time."""
    needed = {"topic_name": _ANY_NAME} if kind is TopicConfig else {}
    for name, value in values.items():
        try:
            kind(**{**needed, name: value})
        except InvalidInput as error:
            yield f"{place}.{error}"


def _permitted(config: TopicConfig, broker_permission: int) -> TopicConfig:
    """Take away what the broker as a whole does not permit (RocketMQ: BrokerController.registerBrokerAll)."""
    if broker_permission & _ALL_PERMITTED == _ALL_PERMITTED:
        return config
    return replace(config, perm=config.perm & broker_permission)


def _step(key: str) -> str:
    """Return the step of a JSON path that leads to `key`."""
    return f".{key}" if _PLAIN_NAME.fullmatch(key) else f"[{orjson.dumps(key).decode()}]"
