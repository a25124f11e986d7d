"""TLS at the port of a front: what it demands of peers, and certificates that may be renewed."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from ...registry.errors import InvalidInput

_LOG: Final = logging.getLogger("sharedroutes.nameserver")

HANDSHAKE: Final = b"\x16"
"""The first byte of a TLS connection; no frame begins so, as it would be longer than any may be."""

_State: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class TlsMode(StrEnum):
    """Whether connections are encrypted; the words are RocketMQ's."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    """Both kinds are taken."""

    ENFORCING = "enforcing"


class ClientAuth(StrEnum):
    """Whether whoever connects over TLS shows a certificate; the words are RocketMQ's."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


_VERIFIED: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files in PEM form; they are read again when they change."""

    certificate: Path
    """The front's own, with those that lead from it to the authority."""

    key: Path | None = None
    """Without a password; None = it stands in the file of the certificate."""

    client_ca: Path | None = None
    """The authorities that may vouch for clients."""

    client_auth: ClientAuth = ClientAuth.NONE


class Tls:
    """Decides about TLS, and holds the context of new connections; raises InvalidInput for bad files."""

    def __init__(self, mode: TlsMode = TlsMode.PERMISSIVE, files: TlsFiles | None = None) -> None:
        if mode is TlsMode.ENFORCING and files is None:
            raise InvalidInput("TLS: enforcing it needs a certificate and its key")
        self.mode = mode
        self._files = None if mode is TlsMode.DISABLED else files
        self._state = self._looked()
        self.context = None if self._files is None else _context(self._files)
        """What new connections get; those that exist keep theirs."""

    def refusal(self, *, is_tls: bool) -> str | None:
        """Return why a connection cannot be taken; None = it can."""
        if not is_tls:
            return "TLS is enforced here, and this is none" if self.mode is TlsMode.ENFORCING else None
        if self.mode is TlsMode.DISABLED:
            return "TLS is disabled here"
        return "no certificate is configured: TLS is not possible" if self.context is None else None

    def refresh(self) -> None:
        """Read the files again if they have changed; those that cannot be used are logged, once each."""
        state = self._looked()
        if self._files is None or state == self._state:
            return
        self._state = state
        try:
            self.context = _context(self._files)
        except InvalidInput as error:
            _LOG.error("TLS: the old certificate stays in use: %s", error)
        else:
            _LOG.info("TLS: the certificate was renewed: %s", self._files.certificate)

    def _looked(self) -> _State:
        files = self._files
        return () if files is None else tuple(map(_stamp, (files.certificate, files.key, files.client_ca)))


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    """Return what a new file differs in, also one that a link leads to."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # of Java 8 clients
    try:
        context.load_cert_chain(files.certificate, files.key, _no_password)
    except OSError as error:  # ssl.SSLError among them
        raise InvalidInput(f"TLS: {files.certificate}, {files.key or 'its key'}: {_reason(error)}") from None
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except OSError as error:
            raise InvalidInput(f"TLS: {files.client_ca}: {_reason(error)}") from None
    context.verify_mode = _VERIFIED[files.client_auth]
    return context


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)


def _no_password() -> str:
    raise InvalidInput("TLS: the key is encrypted: only keys without a password are read")
