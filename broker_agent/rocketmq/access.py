"""How an agent is let in by its broker: who it is (ACL), and how its connections are encrypted (TLS).

ssl is imported only where TLS is on: few agents have it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from ...daemon.threads import in_thread
from ...registry import InvalidInput
from ...remoting import Credentials, ResponseCode
from ...remoting.broker.client import Access
from ..config import AgentConfig, BrokerTls

if TYPE_CHECKING:
    import ssl

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_READ_S: Final = 3.0
_REMARK_CHARS: Final = 200
_ACL_REMARK: Final = "AclException"
"""What releases 4.x write into the remark of SYSTEM_ERROR when they refuse a user."""

_LINE: Final = re.compile(r"""\s*(?P<key>\w+)\s*[:=]\s*(?P<quote>["']?)(?P<value>.*?)(?P=quote)\s*""")
_FIELDS: Final = {"accessKey": "access_key", "secretKey": "secret_key", "securityToken": "security_token"}


class AgentAccess(Access):
    """The agent's credentials and TLS context, and how the broker takes them; no message holds a secret."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self.server_name = config.broker_tls_name
        self._config = config
        self._has_tls = config.broker_tls != BrokerTls.OFF
        self.problem = ""
        """Why credentials or certificates cannot be read; empty = they can."""

        self._distrust = ""
        self._refused: dict[str, str] = {}
        """Why each request was refused, by its name."""

        self._address = ""

    @property
    def trouble(self) -> str:
        """Why the agent is not let in, and what to do; empty = it is."""
        return "; ".join(filter(None, (self.problem, self._distrust, self._refusal())))

    @property
    def is_closed(self) -> bool:
        """Whether no request can be sent, since TLS is on and its files could not be read."""
        return self._has_tls and self.tls is None

    async def load(self) -> None:
        """Read credentials and certificates again; if that fails, the previous ones stay."""
        config = self._config
        if not (self._has_tls or config.broker_credentials or config.broker_credentials_json):
            return
        problem = ""
        try:
            async with asyncio.timeout(_READ_S):
                self.credentials, self.tls = await in_thread(_read, config)
        except InvalidInput as error:
            problem = str(error)
        except TimeoutError:
            problem = f"broker_credentials, broker_tls: the files could not be read within {_READ_S:g} s"
        if problem and problem != self.problem:
            _LOG.error("%s: %s", config.probe_address, problem)
        self.problem, self._distrust, self._refused = problem, "", {}

    def answered(self, address: str, name: str, code: int, remark: str | None) -> None:
        """Note how the broker has answered a request; the first refusal is logged."""
        if code == ResponseCode.NO_PERMISSION or (
            code == ResponseCode.SYSTEM_ERROR and _ACL_REMARK in (remark or "")
        ):
            is_first = not self._refused
            text = " ".join((remark or "").split())[:_REMARK_CHARS]
            self._address, self._refused[name] = address, f"with code {code} ({text})"
            if is_first:
                _LOG.error("%s", self._refusal())
        elif self._refused.pop(name, "") and not self._refused:
            _LOG.info("%s: the broker answers the agent's requests again", address)

    def distrusted(self, why: str) -> None:
        """Note why no TLS connection could be made; empty = one was made. The first reason is logged."""
        if why and not self._distrust:
            _LOG.error("%s", why)
        self._distrust = why

    def _refusal(self) -> str:
        if not self._refused:
            return ""
        names: dict[str, list[str]] = {}
        for name, why in self._refused.items():
            names.setdefault(why, []).append(name)
        what = "; ".join(f"refuses {', '.join(each)} {why}" for why, each in names.items())
        return f"{self._address}: {what}: {self._advice()}"

    def _advice(self) -> str:
        if self.credentials is None:
            return "give the agent a user of the broker (broker_credentials)"
        return (
            f"look at the user {self.credentials.access_key!r} in the broker's ACL, its secret key and what "
            "it may do, and at broker_credentials; then reload the agent"
        )


def credentials_of(text: str, place: str) -> Credentials:
    """Return the credentials that a text holds, as RocketMQ's tools.yml, as properties or as JSON.

    Raises InvalidInput, which names the `place` and no value.
    """
    found: dict[str, str] = {}
    for key, value in _pairs(text, place):
        if key not in _FIELDS:
            raise InvalidInput(f"{place}: {key!r:.40} is none of {', '.join(_FIELDS)}")
        found[_FIELDS[key]] = value
    for key in ("accessKey", "secretKey"):
        if not found.get(_FIELDS[key]):
            raise InvalidInput(f"{place}: {key} is missing")
    return Credentials(**found)


def _pairs(text: str, place: str) -> list[tuple[str, str]]:
    if text.lstrip().startswith("{"):
        try:
            fields = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise InvalidInput(f"{place}: is no JSON: line {error.lineno}, column {error.colno}") from None
        if not all(isinstance(value, str) for value in fields.values()):
            raise InvalidInput(f"{place}: expected strings")
        return list(fields.items())
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pair = _LINE.fullmatch(line)
        if pair is None:
            raise InvalidInput(f"{place}: line {number} is not `key: value`")
        pairs.append((pair["key"], pair["value"]))
    return pairs


def _read(config: AgentConfig) -> tuple[Credentials | None, ssl.SSLContext | None]:
    """Return the credentials and the TLS context that the settings name; raises InvalidInput."""
    tls = None if config.broker_tls == BrokerTls.OFF else _context(config)
    if config.broker_credentials is not None:
        path = config.broker_credentials
        return credentials_of(_text("broker_credentials", path), f"broker_credentials: {path}"), tls
    if config.broker_credentials_json:
        return credentials_of(config.broker_credentials_json, "broker_credentials_json"), tls
    return None, tls


def _text(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{name}: {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{name}: {path}: is no UTF-8") from None


def _context(config: AgentConfig) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - as above

    ca, certificate, key = config.broker_tls_ca, config.broker_tls_cert, config.broker_tls_key
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.broker_tls == BrokerTls.VERIFY_FULL
    if config.broker_tls == BrokerTls.INSECURE:
        context.verify_mode = ssl.CERT_NONE
    elif ca is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=_text("broker_tls_ca", ca))
        except ssl.SSLError as error:
            raise InvalidInput(f"broker_tls_ca: {ca}: holds no certificates: {error.reason}") from None
    if certificate is not None:
        for name, path in (("broker_tls_cert", certificate), ("broker_tls_key", key)):
            if path is not None:
                _text(name, path)
        try:
            context.load_cert_chain(certificate, key, _no_password)
        except ssl.SSLError as error:
            why = f"broker_tls_cert, broker_tls_key: {certificate}, {key}: {error.reason or error}"
            raise InvalidInput(why) from None
    return context


def _no_password() -> str:
    raise InvalidInput("broker_tls_key: is encrypted: the agent reads only keys without a password")
