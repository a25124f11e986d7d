"""The same requests to two name servers, whose answers must be equal."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sharedroutes.remoting import RequestCode as Code
from tests.support import wait_until

from .answers import comparable
from .differences import Difference, explanation
from .sequences import Ask, Close, Garbage, Names, Step
from .situations import Past
from .wire import CLOSED, SILENT, Link, Request

_STANDARD: Final = 401
_GONE_S: Final = 0.3
_EQUAL_S: Final = 3.0
_PAUSE_S: Final = 0.004
_QUIET_ROUNDS: Final = 3
_CODES: Final = {int(code) for code in Code}

_numbers: Final = itertools.count(int(time.monotonic() * 10) % 20_000)


class Side:
    """One of the two name servers, and the connections of an example to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._links: dict[int, Link] = {}

    def ask(self, place: int, request: Request, only: str) -> str:
        """Return the comparable answer; a connection that is not there is opened."""
        if place not in self._links:
            self._links[place] = Link(self.address)
        answer = self._links[place].ask(request)
        if answer == CLOSED or (answer == SILENT and not request.oneway):
            self.close(place)
        return comparable(answer, only=only, sorts_maps=_sorts_maps(request))

    def send(self, data: bytes) -> str:
        """Return what comes back for bytes on a connection of their own."""
        link = Link(self.address)
        try:
            return comparable(link.send(data))
        finally:
            link.close()

    def close(self, place: int) -> None:
        """Close a connection."""
        if link := self._links.pop(place, None):
            link.close()

    def close_all(self) -> None:
        """Close all connections."""
        for place in list(self._links):
            self.close(place)


@dataclass
class Pair:
    """Two name servers that are asked the same."""

    original: str
    front: str
    port: int
    differences: Sequence[Difference] = field(default=(), repr=False)
    seen: set[Difference] = field(default_factory=set, repr=False)
    """The documented differences that have shown."""

    def run(self, steps: Sequence[Step]) -> None:
        """Take the steps on both, with fresh names; raises AssertionError where answers differ."""
        names = Names(next(_numbers), self.port)
        example = _Example(self, names)
        try:
            for place, step in enumerate(steps):
                if not example.take(step, before=steps[:place]):
                    break
        finally:
            example.clean_up(steps)


class _Example:
    """One sequence on both sides."""

    def __init__(self, pair: Pair, names: Names) -> None:
        self._pair = pair
        self._names = names
        self._sides = (Side(pair.original), Side(pair.front))
        self._registered: dict[int, set[str]] = {}

    def take(self, step: Step, before: Sequence[Step]) -> bool:
        """Take a step; return whether to go on: where only one has done it, the tables differ now."""
        if isinstance(step, Close):
            for side in self._sides:
                side.close(step.on)
            leaving = self._registered.pop(step.on, set())
            self._settle(leaving)
            # At a front, a replica stays that has registered on another connection too: see the page.
            return not any(leaving & others for others in self._registered.values())
        if isinstance(step, Garbage):
            answers = [side.send(step.data) for side in self._sides]
            return self._equal(Request(code=0), step.data.hex(), answers, before)
        request = step.request(self._names)
        answers = [side.ask(step.on, request, self._names.prefix) for side in self._sides]
        self._note(step, request)
        return self._equal(request, described(request), answers, before)

    def clean_up(self, steps: Sequence[Step]) -> None:
        """Take from both what the example has left there."""
        for side in self._sides:
            side.close_all()
        asks = [step for step in steps if isinstance(step, Ask)]
        leaving = {
            (step.code, *sorted(request.fields.items())): request
            for step in asks
            if step.code in _UNDONE_BY and (request := self._undo(step)) is not None and request.fields
        }
        for request in leaving.values():
            for side in self._sides:
                side.ask(0, request, "")
        for side in self._sides:
            side.close_all()

    def _undo(self, step: Ask) -> Request | None:
        fields = step.request(self._names).fields
        if not fields or not set(_UNDONE_BY[step.code][1]) <= set(fields):
            return None
        code, names = _UNDONE_BY[step.code]
        return Request(code=code, fields={name: fields[name] for name in names})

    def _note(self, step: Ask, request: Request) -> None:
        """Note what is registered where, and wait for what is done later than it is answered."""
        address = (request.fields or {}).get("brokerAddr", "")
        if step.code == Code.REGISTER_BROKER:
            self._registered.setdefault(step.on, set()).add(address)
        if step.code == Code.UNREGISTER_BROKER:
            self._settle({address})
        elif step.oneway:
            self._settle(set())

    def _settle(self, leaving: set[str]) -> None:
        """Wait until addresses are in neither table, if they leave at all, and the tables are equal."""
        asked = Request(code=Code.GET_BROKER_CLUSTER_INFO)
        gone_s, rounds = time.monotonic() + _GONE_S, 0

        def are_quiet() -> bool:
            nonlocal rounds
            found = [side.ask(0, asked, self._names.prefix) for side in self._sides]
            stays = any(f'"{address}"' in text for address in leaving if address for text in found)
            rounds = rounds + 1 if found[0] == found[1] and (not stays or time.monotonic() > gone_s) else 0
            return rounds == _QUIET_ROUNDS

        with suppress(AssertionError):  # what stays different shows in the answers
            wait_until(are_quiet, timeout_s=_EQUAL_S, pause_s=_PAUSE_S, description="equal tables")

    def _equal(self, request: Request, asked: str, answers: Sequence[str], before: Sequence[Step]) -> bool:
        """Return whether to go on; raises AssertionError for a difference that the page does not have."""
        original, front = answers
        if original == front:
            return True
        history = "\n".join(f"  {self._told(step)}" for step in before)
        past = Past(request, before, self._names)
        rows = explanation(self._pair.differences, past, f"{history}\n{asked}", original, front)
        if not rows:
            raise AssertionError(f"{asked}\n original: {original}\n    front: {front}\nafter\n{history}")
        self._pair.seen.update(rows)
        if request.code not in _DONE_BY_ONE:
            return True
        return _code_of(original) == _code_of(front) and _LEFT_BEHIND not in original

    def _told(self, step: Step) -> str:
        if not isinstance(step, Ask):
            return str(step)
        return f"[{step.on}] {described(step.request(self._names))}"


_UNDONE_BY: Final[dict[int, tuple[Code, tuple[str, ...]]]] = {
    Code.REGISTER_BROKER: (Code.UNREGISTER_BROKER, ("brokerName", "brokerAddr", "clusterName", "brokerId")),
    Code.PUT_KV_CONFIG: (Code.DELETE_KV_CONFIG, ("namespace", "key")),
    Code.REGISTER_TOPIC_IN_NAMESRV: (Code.DELETE_TOPIC_IN_NAMESRV, ("topic",)),
}
"""By request: the one that takes back what it did, and the fields that both have."""

_DONE_BY_ONE: Final = {Code.REGISTER_BROKER, Code.PUT_KV_CONFIG}
"""What one side refuses of these the other has done; of other requests neither has."""


_LEFT_BEHIND: Final = "register broker failed"
"""By this refusal the original leaves an empty group in its lists."""


def described(request: Request) -> str:
    """Return a request as one line, which patterns in the table of differences are compared with."""
    words = [f"request {request.code}", f"version={request.version}"]
    words += ["oneway"] * request.oneway + ["binary"] * request.binary
    if request.header:
        words.append(f"header={json.dumps(dict(request.header), ensure_ascii=False)}")
    fields = "no fields" if request.fields is None else json.dumps(request.fields, ensure_ascii=False)
    body = request.body.decode("utf-8", "backslashreplace") if request.body else "no body"
    return " ".join((*words, fields, body))


def _code_of(answer: str) -> str:
    return answer.partition(",")[0]


def _sorts_maps(request: Request) -> bool:
    """Whether RocketMQ sorts the maps in the answer: routes in standard JSON, unless a zone was asked for."""
    if request.code != Code.GET_ROUTEINFO_BY_TOPIC:
        return False
    fields = request.fields or {}
    in_zone = fields.get("__ZONE_MODE", "").lower() == "true" and fields.get("__ZONE_NAME")
    asks_for_it = fields.get("acceptStandardJsonOnly", "").lower() == "true"
    return (request.version >= _STANDARD or asks_for_it) and not in_zone
