"""Serves the page and its events: the registry is read once for all who look, while somebody does."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from types import ModuleType
from typing import Final, TypeAlias

import orjson

from ...registry import AsyncRouteStore, RegistryError, StoreUnavailable
from ...registry.plans.overview import Overview, overview
from ..http_server import Request, Response
from ..pages import lacking_extra, not_allowed
from ..threads import in_thread
from .model import Page, Process
from .page import Look, page_of

LOOK_S: Final = 2.0
"""How often the registry is read while somebody looks."""

STREAM_S: Final = 600.0
"""So long one stream of events lasts; browsers then ask for the next one."""

MOST_PARTS: Final = 16
"""So many filters are remembered with what was found."""

_READ_S: Final = 3.0
"""The longest that a page waits for the store."""

_SHARE: Final = 20
"""A look that takes long is not repeated before this many times as long."""

_LONGEST_PART: Final = 255
_AGAIN_MS: Final = 3_000
_HTML: Final = "text/html; charset=utf-8"

Read: TypeAlias = Callable[[str], Awaitable[Overview]]
"""Reads the registry, with the brokers and topics whose name contains a text; raises RegistryError."""


def reading(store_now: Callable[[], AsyncRouteStore | None]) -> Read:
    """Return what reads the registry at a process's store; it raises StoreUnavailable while there is none."""

    async def read(part: str) -> Overview:
        store = store_now()
        if store is None:
            raise StoreUnavailable("the store is not open")
        return await store.run(overview(store.keys, part))

    return read


@dataclass(slots=True)
class _Known:
    """What is known for one filter."""

    found: Overview | None = None
    at_s: float = 0.0
    error: str = ""
    due_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Looks:
    """Looks at the registry; who asks again within LOOK_S, or meanwhile, gets the same."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def look(self, part: str) -> Look:
        """Return what the store says now, or said last."""
        known = self._known.setdefault(part, _Known())
        self._known.move_to_end(part)
        if len(self._known) > MOST_PARTS:
            self._known.popitem(last=False)
        async with known.lock:  # a caller that is cancelled leaves it to the next
            if monotonic() >= known.due_s:
                await self._look(known, part)
        return Look(known.found, monotonic() - known.at_s, known.error)

    async def _look(self, known: _Known, part: str) -> None:
        begin_s = monotonic()
        try:
            async with asyncio.timeout(_READ_S):
                known.found = await self._read(part)
        except RegistryError as error:
            known.error = str(error)
        except TimeoutError:
            known.error = f"the store did not answer within {_READ_S:g} s"
        else:
            known.at_s, known.error = monotonic(), ""
        known.due_s = monotonic() + max(LOOK_S, _SHARE * (monotonic() - begin_s))


class StatusPage:
    """The page of one process; `extra` is what has to be installed for it."""

    def __init__(self, process: Callable[[], Awaitable[Process]], read: Read, *, extra: str) -> None:
        self._process = process
        self._looks = Looks(read)
        self._extra = extra
        self._html: ModuleType | None = None

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request for one of FOR_PEOPLE."""
        if request.method not in ("GET", "HEAD"):
            return not_allowed("GET, HEAD")
        try:
            html = await self._renderer()
        except ModuleNotFoundError:
            return lacking_extra(request.path, self._extra)
        part = request.query.get("q", "").strip()[:_LONGEST_PART]
        if request.path == "/events":
            return Response(content_type="text/event-stream", stream=self._events(html, part))
        body = html.whole(await self._page(part))
        headers = (("Content-Security-Policy", html.policy()), ("X-Content-Type-Options", "nosniff"))
        return Response(status=HTTPStatus.OK, body=body, content_type=_HTML, headers=headers)

    async def _renderer(self) -> ModuleType:
        if self._html is None:
            self._html = await in_thread(_renderer)
        return self._html

    async def _page(self, part: str) -> Page:
        return page_of(await self._process(), await self._looks.look(part), part)

    async def _events(self, html: ModuleType, part: str) -> AsyncGenerator[bytes]:
        """Yield what has changed since the last event, or a comment, by which a dead reader is found."""
        yield b"retry: %d\n\n" % _AGAIN_MS
        sent: dict[str, str] = {}
        until_s = monotonic() + STREAM_S
        while monotonic() < until_s:
            parts = html.parts(await self._page(part))
            news = {anchor: text for anchor, text in parts.items() if sent.get(anchor) != text}
            yield b"data: " + orjson.dumps(news) + b"\n\n" if news else b":\n\n"
            sent = parts
            await asyncio.sleep(LOOK_S)


def _renderer() -> ModuleType:
    """Return what makes HTML; jinja2 takes 1 MB and some 0.1 s, and most processes are never looked at."""
    from . import html  # noqa: PLC0415 - see above

    html.prepare()
    return html
