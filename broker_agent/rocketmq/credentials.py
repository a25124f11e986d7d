"""Reads what an agent shows its broker: who it is (ACL), and certificates (TLS)."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final

import orjson

from ...registry import InvalidInput
from ...remoting import Credentials
from ..config import AgentConfig, BrokerTls

_LINE: Final = re.compile(r"""\s*(?P<key>\w+)\s*[:=]\s*(?P<quote>["']?)(?P<value>.*?)(?P=quote)\s*""")
_FIELDS: Final = {"accessKey": "access_key", "secretKey": "secret_key", "securityToken": "security_token"}


def credentials_of(text: str, place: str) -> Credentials:
    """Return what a text says, as RocketMQ's tools.yml, as properties or as JSON.

    Raises InvalidInput, which names the `place` and no value.
    """
    found: dict[str, str] = {}
    for key, value in _said(text, place):
        if key not in _FIELDS:
            raise InvalidInput(f"{place}: {key!r:.40} is none of {', '.join(_FIELDS)}")
        found[_FIELDS[key]] = value
    for key in ("accessKey", "secretKey"):
        if not found.get(_FIELDS[key]):
            raise InvalidInput(f"{place}: {key} is missing")
    return Credentials(**found)


def _said(text: str, place: str) -> list[tuple[str, str]]:
    if text.lstrip().startswith("{"):
        try:
            said = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise InvalidInput(f"{place}: is no JSON: line {error.lineno}, column {error.colno}") from None
        if not all(isinstance(value, str) for value in said.values()):
            raise InvalidInput(f"{place}: expected strings")
        return list(said.items())
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pair = _LINE.fullmatch(line)
        if pair is None:
            raise InvalidInput(f"{place}: line {number} is not `key: value`")
        pairs.append((pair["key"], pair["value"]))
    return pairs


def read(config: AgentConfig) -> tuple[Credentials | None, ssl.SSLContext | None]:
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
