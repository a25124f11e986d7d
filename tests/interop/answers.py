"""Answers in a form in which two name servers can be compared byte for byte.

What must differ is taken out: the numbers of the exchange, and the order of lists and maps that Java's hash
tables make. Nothing is decoded: how keys, characters and numbers are written stays as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from .wire import RawAnswer

T = TypeVar("T")

UNORDERED_LISTS: Final = {"brokerDatas", "queueDatas", "topicList", "clusterAddrTable"}
HASH_MAPS: Final = {
    "brokerAddrTable",
    "brokerAddrs",
    "clusterAddrTable",
    "currIdMap",
    "filterServerTable",
    "table",
    "topicQueueMappingByBroker",
}
_LISTINGS: Final = {"brokerAddrTable", "clusterAddrTable", "topicList"}
_OWN_TO_SENDER: Final = (
    (re.compile(rb'"opaque":-?\d+'), b'"opaque":0'),
    (re.compile(rb'"version":\d+'), b'"version":0'),
    (re.compile(rb'"language":"\w+"'), b'"language":""'),
)
_NOW: Final = re.compile(r'("timestamp":)(?!1700000000000\b)\d{13}')
"""When a server has made a version by itself; those of the requests say 1700000000000."""

_ANY_ADDRESS: Final = re.compile(r'^\{"brokerAddr":"[^"]+",')
"""The system topics come with the address, if any, of whichever broker is the first in a hash table."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^{}\[\],:"\s]+', re.DOTALL)

Tree: TypeAlias = "str | Map | list[Tree]"


@dataclass(slots=True)
class Map:
    """An object of JSON: its keys as they were written, and its values."""

    entries: list[tuple[str, Tree]]


def comparable(answer: RawAnswer | str, *, only: str = "", sorts_maps: bool = False) -> str:
    """Return an answer as a text that is equal for equal answers: header, a space, body.

    `only`: leaves out of listings what has not this in its name; `sorts_maps`: the answer is one whose maps
    RocketMQ sorts, and so their order counts.
    """
    if isinstance(answer, str):
        return answer
    header = answer.header
    for pattern, replacement in _OWN_TO_SENDER:
        header = pattern.sub(replacement, header)
    if not answer.body:
        return f"{_readable(header)} no body"
    body = answer.body.decode("latin-1")
    try:
        tree = _Reader(body).read()
    except (IndexError, AssertionError):
        return f"{_readable(header)} {_readable(answer.body)}"
    text = _ANY_ADDRESS.sub("{", _written(_ordered(tree, "", only, sorts_maps=sorts_maps)))
    text = _NOW.sub(r"\1now", text)
    return f"{_readable(header)} {_readable(text.encode('latin-1'))}"


def _readable(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


class _Reader:
    """Reads JSON, also with keys that are not quoted, into a tree of its own texts."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        assert "".join(self._tokens) == text, "something between the tokens"
        self._place = 0

    def read(self) -> Tree:
        """Return the tree; raises IndexError or AssertionError for what is no JSON."""
        tree = self._value()
        assert self._place == len(self._tokens), "something behind the end"
        return tree

    def _next(self) -> str:
        self._place += 1
        return str(self._tokens[self._place - 1])

    def _value(self) -> Tree:
        word = self._next()
        if word == "[":
            return list(self._items("]", self._value))
        if word == "{":
            return Map(list(self._items("}", self._entry)))
        assert word not in "}],:", word
        return word

    def _entry(self) -> tuple[str, Tree]:
        key = self._next()
        assert self._next() == ":"
        return key, self._value()

    def _items(self, end: str, item: Callable[[], T]) -> Iterator[T]:
        """Yield what stands before `end`, with commas between."""
        if self._tokens[self._place] == end:
            self._next()
            return
        word = ","
        while word != end:
            assert word == ",", word
            yield item()
            word = self._next()


def _ordered(tree: Tree, name: str, only: str, *, sorts_maps: bool) -> Tree:
    """Return the tree with sorted lists and maps; `name` is the member that it is the value of."""
    if isinstance(tree, Map):
        entries = tree.entries
        if name in _LISTINGS:
            entries = [entry for entry in entries if only in entry[0]]
        if name in HASH_MAPS and not sorts_maps:
            entries = sorted(entries, key=lambda entry: entry[0])
        # What is in a map of lists is named by the map: its keys are data.
        inner = name if name == "clusterAddrTable" else ""
        return Map(
            [
                (key, _ordered(one, inner or key.strip('"'), only, sorts_maps=sorts_maps))
                for key, one in entries
            ]
        )
    if isinstance(tree, list):
        items = [_ordered(item, "", only, sorts_maps=sorts_maps) for item in tree]
        if name in _LISTINGS:
            items = [item for item in items if only in _written(item)]
        return sorted(items, key=_named) if name in UNORDERED_LISTS else items
    return tree


def _named(tree: Tree) -> tuple[str, str]:
    """Return what sorts an item: the broker that it is about, and else what it says."""
    name = (
        next((str(value) for key, value in tree.entries if key == '"brokerName"'), "")
        if isinstance(tree, Map)
        else ""
    )
    return name, _written(tree)


def _written(tree: Tree) -> str:
    if isinstance(tree, Map):
        return "{" + ",".join(f"{key}:{_written(value)}" for key, value in tree.entries) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(_written, tree)) + "]"
    return tree
