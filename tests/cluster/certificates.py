"""Certificates made for the tests: an authority, a server's, a client's, and another authority."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of one test session; each name has a `.crt` and a `.key`."""

    folder: Path

    def make(self) -> Certificates:
        """Write all of them."""
        for authority in ("ca", "other-ca"):
            self._openssl(authority, "-addext", "keyUsage=critical,keyCertSign")
        issued = ("-CA", self.crt("ca"), "-CAkey", self.key("ca"))
        self._openssl("server", *issued, "-addext", "subjectAltName=IP:127.0.0.1")
        self._openssl("client", *issued)
        return self

    def crt(self, name: str) -> str:
        return str(self.folder / f"{name}.crt")

    def key(self, name: str) -> str:
        return str(self.folder / f"{name}.key")

    def server_options(self, port: int) -> tuple[str, ...]:
        """Return what makes a server speak TLS at a port too, to those who show a certificate."""
        return (
            *("--tls-port", str(port), "--tls-ca-cert-file", self.crt("ca"), "--tls-auth-clients", "yes"),
            *("--tls-cert-file", self.crt("server"), "--tls-key-file", self.key("server")),
        )

    def query(self, authority: str = "ca", *, client: bool = True) -> str:
        """Return the options of a store URL."""
        mine = f"&ssl_certfile={self.crt('client')}&ssl_keyfile={self.key('client')}" if client else ""
        return f"?ssl_ca_certs={self.crt(authority)}{mine}"

    def _openssl(self, name: str, *options: str) -> None:
        command = ["openssl", "req", "-x509", *_KEY, "-keyout", self.key(name), "-out", self.crt(name)]
        done = subprocess.run(
            [*command, "-subj", f"/CN={name}", *options], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
