"""The pages that agents and fronts serve over HTTP, as a command asks for them."""

from __future__ import annotations

import http.client
from http import HTTPStatus
from typing import Final, NamedTuple

import click

AGENT_HTTP: Final = "127.0.0.1:9877"
FRONT_HTTP: Final = "127.0.0.1:9878"
"""Where agents and fronts serve HTTP unless they are told otherwise; neither is imported for it, since
`agent-ctl` has to be quick enough for a health check."""

_ANSWER_S: Final = 5.0
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what is asked instead


class NoAnswer(Exception):
    """A process does not answer, or not with a success; the message says why."""


class Place(NamedTuple):
    """Where a process serves HTTP."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def of(cls, address: str, option: str) -> Place:
        """Return the place that an option names as host:port, or by its page; raises BadParameter."""
        host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
        host = host.strip("[]")
        if "/" in host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
            raise click.BadParameter(
                f"{address!r} is not host:port with a port within 1..65535", param_hint=option
            )
        return cls(_WILDCARDS.get(host, host), int(port))

    def ask(self, method: str, path: str, *, who: str = "agent", within_s: float = _ANSWER_S) -> str:
        """Return what is answered; raises NoAnswer, which says that no `who` answers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=within_s)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            what = str(error) or type(error).__name__
            raise NoAnswer(f"no {who} answers at {self}: {what}") from error
        finally:
            connection.close()
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise NoAnswer(body.rstrip() or f"{answer.status} {answer.reason}")
        return body
