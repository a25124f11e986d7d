"""How an agent is let in by its broker: who it is (ACL), and how its connections are encrypted (TLS)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ...registry import InvalidInput
from ...remoting import Credentials, ResponseCode
from ..config import AgentConfig, BrokerTls
from ..daemon_threads import in_thread

if TYPE_CHECKING:
    import ssl

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_READ_S: Final = 3.0
_REMARK_CHARS: Final = 200
_OF_ACL: Final = "AclException"
"""What releases 4.x write into the remark of SYSTEM_ERROR when they refuse a user."""


class Access:
    """What the agent shows its broker, and what the broker makes of it; secrets are in no text of it."""

    def __init__(self, config: AgentConfig | None = None) -> None:
        self.credentials: Credentials | None = None
        self.tls: ssl.SSLContext | None = None
        self.server_name = config.broker_tls_name if config else ""
        """Whom the broker's certificate has to name; empty = the host."""

        self._config = config
        self._has_tls = config is not None and config.broker_tls != BrokerTls.OFF
        self._problem = ""
        self._distrust = ""
        self._refused: dict[str, str] = {}
        """Why each request was refused, by its name."""

        self._address = ""

    @property
    def trouble(self) -> str:
        """Why the agent is not let in, with what to do; empty = it is."""
        return "; ".join(filter(None, (self._problem, self._distrust, self._refusal())))

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked, since TLS is wanted and what it needs could not be read."""
        return self._has_tls and self.tls is None

    async def load(self) -> None:
        """Read credentials and certificates anew; if that fails, those that were read before stay."""
        config = self._config
        if config is None or not (
            self._has_tls or config.broker_credentials or config.broker_credentials_json
        ):
            return
        from .credentials import read  # noqa: PLC0415 - few agents have any, and ssl comes with it

        problem = ""
        try:
            async with asyncio.timeout(_READ_S):
                self.credentials, self.tls = await in_thread(read, config)
        except InvalidInput as error:
            problem = str(error)
        except TimeoutError:
            problem = f"broker_credentials, broker_tls: the files could not be read within {_READ_S:g} s"
        if problem and problem != self._problem:
            _LOG.error("%s: %s", config.probe_address, problem)
        self._problem, self._distrust, self._refused = problem, "", {}

    def heard(self, address: str, name: str, code: int, remark: str | None) -> None:
        """Take how the broker has answered a request; the first refusal is logged."""
        if code == ResponseCode.NO_PERMISSION or (
            code == ResponseCode.SYSTEM_ERROR and _OF_ACL in (remark or "")
        ):
            is_first = not self._refused
            said = " ".join((remark or "").split())[:_REMARK_CHARS]
            self._address, self._refused[name] = address, f"with code {code} ({said})"
            if is_first:
                _LOG.error("%s", self._refusal())
        elif self._refused.pop(name, "") and not self._refused:
            _LOG.info("%s: what the agent asks is answered again", address)

    def distrusted(self, why: str) -> None:
        """Take why no TLS connection could be made; empty = one was made. The first reason is logged."""
        if why and not self._distrust:
            _LOG.error("%s", why)
        self._distrust = why

    def _refusal(self) -> str:
        if not self._refused:
            return ""
        whats: dict[str, list[str]] = {}
        for name, why in self._refused.items():
            whats.setdefault(why, []).append(name)
        said = "; ".join(f"refuses {', '.join(names)} {why}" for why, names in whats.items())
        return f"{self._address}: {said}: {self._advice()}"

    def _advice(self) -> str:
        if self.credentials is None:
            return "give the agent a user of the broker (broker_credentials)"
        return (
            f"look at the user {self.credentials.access_key!r} in the broker's ACL, its secret key and what "
            "it may do, and at broker_credentials; then reload the agent"
        )
