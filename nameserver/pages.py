"""What a process of the front serves over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from ..daemon.http_server import Request, Response
from ..daemon.pages import FOR_PEOPLE, VIEWS, view
from ..daemon.status_page.model import Process
from ..daemon.status_page.serving import Read, StatusPage
from .status import ProcessStatus, as_json
from .status_page import as_process


class Pages:
    """Answers the requests about one process; `status` is asked at every one, `read` reads the registry."""

    def __init__(self, status: Callable[[], Awaitable[ProcessStatus]], read: Read) -> None:
        self._status = status
        self._page = StatusPage(self._process, read, extra="nameserver")

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request."""
        if request.path not in VIEWS:
            return Response.text(HTTPStatus.NOT_FOUND, "here are:", *VIEWS)
        if request.path in FOR_PEOPLE:
            return await self._page.answer(request)
        status = await self._status()

        def metrics(accept: str) -> tuple[bytes, str]:
            from .metrics import page  # noqa: PLC0415 - see view()

            return page(status, accept)

        return view(request, status, as_json=lambda: as_json(status), metrics=metrics)

    async def _process(self) -> Process:
        return as_process(await self._status())
