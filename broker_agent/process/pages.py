"""What the agent process serves over HTTP: its health, its status, its metrics, and its controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from ...daemon.http_server import Request, Response
from ...daemon.pages import FOR_PEOPLE, VIEWS, json, not_allowed, view
from ...daemon.threads import in_thread
from ...registry import AsyncRouteStore, NotFound
from .process_status import ProcessStatus, as_json

if TYPE_CHECKING:
    from ...daemon.status_page.model import Process
    from ...daemon.status_page.serving import StatusPage

CONTROLS: Final = ("/drain", "/pause", "/resume", "/reload")

_LONGEST_WAIT_S: Final = 86_400


class _Process(Protocol):
    """The sidecar, as far as HTTP may ask it."""

    def status(self) -> ProcessStatus: ...
    def drain(self, broker: str = "", wait_s: float | None = None) -> Sequence[str]: ...
    def pause(self, broker: str = "") -> Sequence[str]: ...
    def resume(self, broker: str = "") -> Sequence[str]: ...
    async def reload(self) -> Sequence[str]: ...


class Pages:
    """Answers the requests for one process, which may be controlled from `control`: local, any, off.

    `store_now`: the store at which the registry is read, while there is one.
    """

    def __init__(
        self, process: _Process, store_now: Callable[[], AsyncRouteStore | None], *, control: str
    ) -> None:
        self._process = process
        self._store_now = store_now
        self._control = control
        self._page: StatusPage | None = None

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request."""
        if request.path in FOR_PEOPLE:
            if self._page is None:
                self._page = await in_thread(self._new_page)
            return await self._page.answer(request)
        if request.path in VIEWS:
            status = self._process.status()

            def metrics(accept: str) -> tuple[bytes, str]:
                from ...daemon.metrics import page  # noqa: PLC0415 - see view()
                from .metrics import StatusCollector  # noqa: PLC0415 - see view()

                return page(StatusCollector(status), accept, of_process=True)

            return view(request, status, as_json=lambda: as_json(status), metrics=metrics)
        if request.path in CONTROLS:
            return await self._controlled(request)
        return Response.text(
            HTTPStatus.NOT_FOUND, "here are:", *VIEWS, *(f"POST {path}" for path in CONTROLS)
        )

    def _new_page(self) -> StatusPage:
        """Return the page for people; it takes 0.3 MB, and most agents are never looked at."""
        from ...daemon.status_page.serving import StatusPage, reading  # noqa: PLC0415 - see above
        from .status_page import as_process  # noqa: PLC0415 - see above

        async def shown() -> Process:
            return as_process(self._process.status())

        return StatusPage(shown, reading(self._store_now), extra="agent")

    async def _controlled(self, request: Request) -> Response:
        if request.method != "POST":
            return not_allowed("POST")
        if refusal := self._refusal(request):
            return Response.text(HTTPStatus.FORBIDDEN, refusal)
        if problem := _wrong_query(request):
            return Response.text(HTTPStatus.BAD_REQUEST, problem)
        try:
            return await self._do(request)
        except NotFound as error:
            return Response.text(HTTPStatus.NOT_FOUND, str(error))

    def _refusal(self, request: Request) -> str:
        """Return why this client may not control the process; empty = it may."""
        if "origin" in request.headers:
            return "requests of web pages are refused"
        if self._control == "off":
            return "http_control = off: use signals"
        if self._control == "local" and not request.local:
            return "http_control = local: ask from the same host, over its loopback interface"
        return ""

    async def _do(self, request: Request) -> Response:
        broker = request.query.get("broker", "")
        match request.path:
            case "/drain":
                wait = request.query.get("wait_s")
                names = self._process.drain(broker, None if wait is None else float(wait))
            case "/pause":
                names = self._process.pause(broker)
            case "/resume":
                names = self._process.resume(broker)
            case _:
                problems = await self._process.reload()
                return json({"problems": list(problems)})
        return json({"brokers": list(names)}, HTTPStatus.ACCEPTED)


def _wrong_query(request: Request) -> str:
    known = {"/drain": ("broker", "wait_s"), "/reload": ()}.get(request.path, ("broker",))
    for name in request.query:
        if name not in known:
            return f"{name}: is no parameter of {request.path}"
    if request.query.get("broker") == "":
        return "broker: is empty: leave it out to mean all brokers"
    wait = request.query.get("wait_s", "0")
    try:
        fits = 0 <= float(wait) <= _LONGEST_WAIT_S
    except ValueError:
        fits = False
    return "" if fits else f"wait_s: {wait!r} is not within 0..{_LONGEST_WAIT_S} seconds"
