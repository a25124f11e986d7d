"""Signs requests for brokers that know their users (RocketMQ: AclClientRPCHook, AclUtils, AclSigner)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from .command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE: Final = "Signature"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks; neither the secret key nor the token is in the representation."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


def signed(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return the request with the name of who asks and the signature, as 4.x and 5.x want it."""
    fields = {**(command.ext_fields or {}), ACCESS_KEY: credentials.access_key}
    if credentials.security_token:
        fields[SECURITY_TOKEN] = credentials.security_token
    fields[SIGNATURE] = signature(fields, command.body, credentials.secret_key)
    return replace(command, ext_fields=fields)


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the base64 of the HmacSHA1 over the values in the order of their keys, and the body."""
    import hmac  # noqa: PLC0415 - few agents sign anything, and it stays in memory
    from base64 import b64encode  # noqa: PLC0415

    # Java compares strings by UTF-16.
    names = sorted((name for name in fields if name != SIGNATURE), key=lambda name: name.encode("utf-16-be"))
    content = "".join(fields[name] for name in names).encode() + body
    return b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()
