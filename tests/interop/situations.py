"""When differences show that docs/nameserver.md tells in words: what a request, or one before it, must have.

A row of its table without a pattern in the column `situation` has its words here, and what they mean.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import orjson

from sharedroutes.remoting import RequestCode as Code

from .sequences import BEFORE_FILTER_SERVERS, Ask, Close, Names, Step
from .wire import Request, crc32

_REPLICA: Final = ("brokerName", "brokerAddr", "clusterName", "brokerId")
NEEDED: Final[Mapping[int, Sequence[str]]] = {
    Code.PUT_KV_CONFIG: ("namespace", "key", "value"),
    Code.GET_KV_CONFIG: ("namespace", "key"),
    Code.DELETE_KV_CONFIG: ("namespace", "key"),
    Code.REGISTER_BROKER: _REPLICA,
    Code.UNREGISTER_BROKER: _REPLICA,
    Code.WIPE_WRITE_PERM_OF_BROKER: ("brokerName",),
    Code.ADD_WRITE_PERM_OF_BROKER: ("brokerName",),
    Code.DELETE_TOPIC_IN_NAMESRV: ("topic",),
    Code.REGISTER_TOPIC_IN_NAMESRV: ("topic",),
    Code.GET_KVLIST_BY_NAMESPACE: ("namespace",),
    Code.GET_TOPICS_BY_CLUSTER: ("cluster",),
    Code.QUERY_DATA_VERSION: _REPLICA,
    Code.GET_BROKER_MEMBER_GROUP: ("clusterName", "brokerName"),
    Code.BROKER_HEARTBEAT: ("clusterName", "brokerName", "brokerAddr"),
}
_NUMBERS: Final = ("brokerId", "heartbeatTimeoutMillis", "bodyCrc32")
_LONGEST_BYTES: Final = 255
_FIRST_OF_NAMES: Final = re.compile(r"|.*[\s\x00-\x1f\x7f].*", re.DOTALL)
_ADDRESS: Final = re.compile(r"[^\s:/@]+:0*([1-9]\d{0,4})")
_LAST_PORT: Final = 65_535


@dataclass(frozen=True)
class Past:
    """The request that is answered, and the steps before it."""

    asked: Request
    steps: Sequence[Step]
    names: Names

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """What the request's header says."""
        return self.asked.said

    @cached_property
    def requests(self) -> list[tuple[int, Request]]:
        """Those before it, each with its connection."""
        return [(step.on, step.request(self.names)) for step in self.steps if isinstance(step, Ask)]

    def registrations(self) -> Iterator[tuple[Mapping[str, str], Request]]:
        """Yield those before it, by their fields."""
        for _, request in self.requests:
            if request.code == Code.REGISTER_BROKER and request.said:
                yield request.said, request

    def live(self) -> dict[tuple[str, str], str]:
        """Return the replicas that are registered, by name and id: where they are."""
        found: dict[tuple[str, str], tuple[str, int]] = {}
        for step in self.steps:
            if isinstance(step, Close):
                found = {key: place for key, place in found.items() if place[1] != step.on}
            if isinstance(step, Ask):
                _note(found, step.on, step.request(self.names))
        return {key: address for key, (address, _) in found.items()}


def _note(found: dict[tuple[str, str], tuple[str, int]], on: int, request: Request) -> None:
    fields = request.said
    name, address = fields.get("brokerName", ""), fields.get("brokerAddr", "")
    if request.code in (Code.REGISTER_BROKER, Code.UNREGISTER_BROKER) and _is_taken(request):
        for key in [key for key, place in found.items() if key[0] == name and place[0] == address]:
            del found[key]
    if request.code == Code.REGISTER_BROKER and _is_taken(request):
        found[name, fields.get("brokerId", "")] = address, on


def _is_taken(request: Request) -> bool:
    if request.code != Code.REGISTER_BROKER:
        return True
    said = request.said.get("bodyCrc32", "0")
    return said in ("0", str(crc32(request.body))) and (not request.body or table(request) is not None)


def table(request: Request) -> dict[str, Any] | None:
    """Return the object that is the body of a request; None = it is none."""
    with suppress(ValueError):
        found = orjson.loads(request.body)
        return found if isinstance(found, dict) else None
    with suppress(zlib.error):
        return {"compressed": zlib.decompress(request.body)}
    return None


def topics_of(request: Request) -> list[str]:
    """Return the topics of a registration."""
    found = table(request) or {}
    if text := found.get("compressed"):
        place = 4 + int.from_bytes(text[:4], "big")
        number, names = int.from_bytes(text[place : place + 4], "big"), list[str]()
        for _ in range(number):
            place += 4 + (len(names[-1]) if names else 0)
            size = int.from_bytes(text[place : place + 4], "big")
            names.append(text[place + 4 : place + 4 + size].decode("latin-1"))
        return [name.partition(" ")[0] for name in names]
    wrapper = found.get("topicConfigSerializeWrapper") or found
    return list(wrapper.get("topicConfigTable") or {})


def _lacks_field(past: Past) -> bool:
    nothing = {None, ""} if past.asked.binary else {None}  # a binary header has no empty field
    return any(past.fields.get(name) in nothing for name in NEEDED.get(past.asked.code, ()))


def _has_no_number(past: Past) -> bool:
    given = (past.fields[name] for name in _NUMBERS if name in past.fields)
    return any(re.fullmatch(r"[+-]?[0-9]{1,20}", value) is None for value in given)


def _has_no_name(past: Past) -> bool:
    return any(_FIRST_OF_NAMES.fullmatch(value) for value in past.fields.values())


def _is_too_long(past: Past) -> bool:
    return any(len(value.encode()) > _LONGEST_BYTES for value in past.fields.values())


def _has_line_separator(past: Past) -> bool:
    values = [value for _, one in past.requests for value in one.said.values()]
    return any(one in value for value in (*values, *past.fields.values()) for one in "\u2028\u2029")


def _has_no_address(past: Past) -> bool:
    said = past.fields.get("brokerAddr")
    found = _ADDRESS.fullmatch(said) if said is not None else None
    return said is not None and (found is None or int(found[1]) > _LAST_PORT)


def _is_unreadable(past: Past) -> bool:
    found, body = table(past.asked), past.asked.body
    is_too_new = "compressed" in (found or {}) and past.asked.version < BEFORE_FILTER_SERVERS
    return is_too_new or (bool(body) and body != b"null" and found is None)


def _says_nothing(past: Past) -> bool:
    return past.asked.body == b"null"


def _is_mislabelled(past: Past) -> bool:
    is_compressed = "compressed" in (table(past.asked) or {})
    return is_compressed and past.fields.get("compressed", "").lower() != "true"


def _is_first_with_one_topic(past: Past) -> bool:
    replica = past.fields.get("brokerName", ""), past.fields.get("brokerId", "")
    return len(topics_of(past.asked)) == 1 and replica not in past.live()


def _is_held(past: Past) -> bool:
    replica = past.fields.get("brokerName", ""), past.fields.get("brokerId", "")
    others = {
        fields.get("brokerAddr")
        for fields, _ in past.registrations()
        if (fields.get("brokerName"), fields.get("brokerId")) == replica
    }
    return bool(others - {past.fields.get("brokerAddr")})


def _is_slave_elsewhere(past: Past) -> bool:
    name = past.fields.get("brokerName")
    masters = [
        fields
        for fields, _ in past.registrations()
        if (fields.get("brokerName"), fields.get("brokerId")) == (name, "0")
    ]
    elsewhere = any(one.get("clusterName") != past.fields.get("clusterName") for one in masters)
    gone = [one.said for _, one in past.requests if one.code == Code.UNREGISTER_BROKER]
    misnamed = any(
        one.get("brokerAddr") == master.get("brokerAddr") and one.get("brokerName") != name
        for one in gone
        for master in masters
    )
    return past.fields.get("brokerId") != "0" and (elsewhere or misnamed)


def _names_nobody(past: Past) -> bool:
    named = {one.get("brokerName") for one in (table(past.asked) or {}).get("queueDatas") or ()}
    masters = {name for name, broker_id in past.live() if broker_id == "0"}
    return bool(named - masters)


def _was_without_version(past: Past) -> bool:
    return any(
        fields.get("brokerAddr") == past.fields.get("brokerAddr")
        and not ((table(one) or {}).get("topicConfigSerializeWrapper") or {}).get("dataVersion")
        for fields, one in past.registrations()
    )


def _spans_clusters(past: Past) -> set[str]:
    """Return the names of such groups, of their clusters, and of their topics."""
    clusters: dict[str, set[str]] = {}
    for fields, _ in past.registrations():
        clusters.setdefault(fields.get("brokerName", ""), set()).add(fields.get("clusterName", ""))
    groups = {name for name, of in clusters.items() if len(of) > 1}
    topics = {
        topic
        for fields, one in past.registrations()
        if fields.get("brokerName") in groups
        for topic in topics_of(one)
    }
    return groups.union(topics, *(clusters[name] for name in groups))


def _changes_settings(past: Past) -> bool:
    return bool(past.asked.body)


def _has_odd_escape(past: Past) -> bool:
    return re.search(rb"\\u(?![0-9a-fA-F]{4})", past.asked.body) is not None


def _always(_: Past) -> bool:
    return True


SITUATIONS: Final[Mapping[str, Callable[[Past], bool | set[str]]]] = {
    "a field that is needed is missing from the header": _lacks_field,
    "a field that has to be a number is none": _has_no_number,
    "a name is empty, or has white space or control characters": _has_no_name,
    "a name or a value is longer than the registry holds": _is_too_long,
    "a key value with the character U+2028, or U+2029": _has_line_separator,
    "an address that nobody can connect to": _has_no_address,
    "a body that cannot be read": _is_unreadable,
    "a body that is the word null": _says_nothing,
    "a compressed body that is labelled as not compressed, as brokers 5.x send it": _is_mislabelled,
    "the first registration of a replica has exactly one topic": _is_first_with_one_topic,
    "another address has the same name and id, and answers": _is_held,
    "a slave registers in another cluster than its master, or after a 104 with another broker's name and its "
    "master's address": _is_slave_elsewhere,
    "a broker that is not there": _names_nobody,
    "a table was registered without a version": _was_without_version,
    "replicas of one name in two clusters": _spans_clusters,
    "any change of settings": _changes_settings,
    "a text that is no properties": _has_odd_escape,
    "always": _always,
}
"""By the words of the table: whether it is so, or the names that it is about."""
