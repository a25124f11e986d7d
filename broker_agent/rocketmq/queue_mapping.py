"""What a broker says about its static topics (RocketMQ: TopicQueueMappingManager)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...registry import DataVersion, InvalidInput, QueueMapping
from ...remoting import fastjson
from .topics import TopicsInvalid, shown, step, version_at

_IN_FILE: Final = "topicQueueMappingInfoMap"
"""What the file calls the details, in which the queues stand with their whole history."""


@dataclass(frozen=True, slots=True, eq=False)
class MappingTable:
    """One state of a broker's queue mappings, by topic."""

    mappings: Mapping[str, QueueMapping] = field(repr=False)
    version: DataVersion = field(default_factory=DataVersion)


def parse(content: bytes | memoryview, *, previous: Mapping[str, QueueMapping] | None = None) -> MappingTable:
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
    if not problems and _IN_FILE not in fields:
        problems.append(f"$.{_IN_FILE}: is missing")
    found = mappings_at(f"$.{_IN_FILE}", fields.get(_IN_FILE) or {}, problems)
    if problems:
        raise TopicsInvalid(problems)
    known = previous or {}
    return MappingTable({n: known[n] if known.get(n) == new else new for n, new in found.items()}, version)


def mappings_at(place: str, value: object, problems: list[str]) -> dict[str, QueueMapping]:
    """Return the mappings by the key of each, which is the topic; what is wrong is added to `problems`."""
    found = (
        (topic, mapping_at(f"{place}{step(topic)}", one, problems))
        for topic, one in _items(place, value, problems)
    )
    return {topic: mapping for topic, mapping in found if mapping is not None}


def mapping_at(place: str, value: object, problems: list[str]) -> QueueMapping | None:
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
    """Yield logical and physical id of the queues whose last place is this broker."""
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
    for key, item in _items(place, value, problems):
        if key.isascii() and key.isdecimal():
            yield int(key), item
        else:
            problems.append(f"{place}{step(key)}: expected a whole number as the key")


def _items(place: str, value: object, problems: list[str]) -> Iterator[tuple[str, Any]]:
    yield from _object(place, value, problems).items()


def _object(place: str, value: object, problems: list[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(f"{place}: expected an object, got {shown(value)}")
    return {}
