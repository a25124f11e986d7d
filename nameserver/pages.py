"""What a process of the front serves over HTTP: its health, its state, its metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final

import orjson

from ..daemon.http_server import Request, Response
from .status import ProcessStatus, as_json

VIEWS: Final = ("/healthz", "/readyz", "/status", "/metrics")


class Pages:
    """Answers the requests about one process; `status` is asked at every one."""

    def __init__(self, status: Callable[[], Awaitable[ProcessStatus]]) -> None:
        self._status = status

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request."""
        if request.path not in VIEWS:
            return Response.text(HTTPStatus.NOT_FOUND, "here are:", *VIEWS)
        if request.method not in ("GET", "HEAD"):
            body = b"use GET, HEAD\n"
            headers = (("Allow", "GET, HEAD"),)
            return Response(status=HTTPStatus.METHOD_NOT_ALLOWED, body=body, headers=headers)
        status = await self._status()
        match request.path:
            case "/healthz":
                return _verdict(status.unhealthy)
            case "/readyz":
                return _verdict(status.unready)
            case "/metrics":
                return _metrics(status, request.headers.get("accept", ""))
            case _:
                return Response(body=_json(status), content_type="application/json")


def _verdict(reasons: Sequence[str]) -> Response:
    if reasons:
        return Response.text(HTTPStatus.SERVICE_UNAVAILABLE, *reasons)
    return Response.text(HTTPStatus.OK, "ok")


def _json(status: ProcessStatus) -> bytes:
    return orjson.dumps(as_json(status), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _metrics(status: ProcessStatus, accept: str) -> Response:
    try:
        from .metrics import page  # noqa: PLC0415 - most never ask for it, and it takes 2 MB
    except ModuleNotFoundError:
        from ..extras import lacking  # noqa: PLC0415 - as above

        problem = lacking("/metrics", "metrics")
        if problem is None:
            raise
        return Response.text(HTTPStatus.NOT_IMPLEMENTED, problem)
    body, content_type = page(status, accept)
    return Response(body=body, content_type=content_type)
