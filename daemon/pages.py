"""The pages that every process shows of itself over HTTP: its health, its status, its metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from http import HTTPStatus
from typing import Final, Protocol

import orjson

from .http_server import Request, Response

FOR_PEOPLE: Final = ("/", "/events")
"""The status page and its events, which `status_page` answers."""

VIEWS: Final = (*FOR_PEOPLE, "/healthz", "/readyz", "/status", "/metrics")
"""All pages; `view` answers those for programs."""


class State(Protocol):
    """A process at one moment."""

    @property
    def unhealthy(self) -> Sequence[str]:
        """Why the process should be restarted; empty = it works."""

    @property
    def unready(self) -> Sequence[str]:
        """Why it cannot do its work yet, or not any more; empty = it can."""


def view(
    request: Request,
    state: State,
    *,
    as_json: Callable[[], object],
    metrics: Callable[[str], tuple[bytes, str]],
) -> Response:
    """Return one of the pages in VIEWS that are for programs.

    `metrics` makes a page and its content type for a header Accept; it is where prometheus_client is first
    imported, which most never need and which takes 2 MB.
    """
    if request.method not in ("GET", "HEAD"):
        return not_allowed("GET, HEAD")
    match request.path:
        case "/healthz":
            return _verdict(state.unhealthy)
        case "/readyz":
            return _verdict(state.unready)
        case "/metrics":
            return _metrics(lambda: metrics(request.headers.get("accept", "")))
        case _:
            return json(as_json())


def not_allowed(methods: str) -> Response:
    """Return the answer to a request by another method."""
    status = HTTPStatus.METHOD_NOT_ALLOWED
    return Response(status=status, body=f"use {methods}\n".encode(), headers=(("Allow", methods),))


def json(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return a value as a JSON document that people can read, too."""
    body = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return Response(status=status, body=body, content_type="application/json")


def _verdict(reasons: Sequence[str]) -> Response:
    if reasons:
        return Response.text(HTTPStatus.SERVICE_UNAVAILABLE, *reasons)
    return Response.text(HTTPStatus.OK, "ok")


def lacking_extra(path: str, extra: str) -> Response:
    """Return why a page cannot be made without an extra; raises ModuleNotFoundError if it is there."""
    from ..extras import lacking  # noqa: PLC0415 - only where something is lacking

    problem = lacking(path, extra)
    if problem is None:
        raise ModuleNotFoundError(f"{path}: a module of the extra {extra} cannot be imported")
    return Response.text(HTTPStatus.NOT_IMPLEMENTED, problem)


def _metrics(make: Callable[[], tuple[bytes, str]]) -> Response:
    try:
        body, content_type = make()
    except ModuleNotFoundError:
        return lacking_extra("/metrics", "metrics")
    return Response(body=body, content_type=content_type)


@cache
def version() -> str:
    """Return the version of the package; it takes 10 ms, once."""
    from .. import __version__  # noqa: PLC0415 - looked up when it is asked for

    return __version__
