"""One request or response (RocketMQ: RemotingCommand), and its signature for brokers with users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from .codes import CURRENT_VERSION, LanguageCode, SerializeType

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE: Final = "Signature"

_RESPONSE: Final = 1
_ONEWAY: Final = 2


class FrameError(ValueError):
    """Bytes that are no frame of RocketMQ, or a command that no frame can carry; says what is wrong.

    After one was received nothing that follows can be understood: close the connection, as RocketMQ does.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotingCommand:
    """The contents of one frame."""

    code: int
    """A RequestCode, or in a response a ResponseCode; others than those named there are possible."""

    language: LanguageCode = LanguageCode.PYTHON
    version: int = CURRENT_VERSION
    """The release of the sender, as the number that it has in RocketMQ's MQVersion."""

    opaque: int = 0
    """The number that a response has in common with its request."""

    flag: int = 0
    remark: str | None = None
    """What went wrong, in a response."""

    ext_fields: Mapping[str, str] | None = None
    """The header fields of this code, all as text; in JSON, None and {} differ."""

    body: bytes = field(default=b"", repr=False)
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether it is a request that must not be answered."""
        return bool(self.flag & _ONEWAY)

    def ext_field(self, name: str) -> str | None:
        """Return one of the `ext_fields`, or None."""
        return None if self.ext_fields is None else self.ext_fields.get(name)


def request(
    code: int,
    ext_fields: Mapping[str, str] | None = None,
    *,
    body: bytes = b"",
    opaque: int = 0,
    oneway: bool = False,
    version: int = CURRENT_VERSION,
    serialize_type: SerializeType = SerializeType.JSON,
) -> RemotingCommand:
    """Return a request; a connection gives it the `opaque` that is free there."""
    return RemotingCommand(
        code=code,
        version=version,
        opaque=opaque,
        flag=_ONEWAY if oneway else 0,
        ext_fields=ext_fields,
        body=body,
        serialize_type=serialize_type,
    )


def response_to(
    asked: RemotingCommand,
    code: int,
    ext_fields: Mapping[str, str] | None = None,
    *,
    remark: str | None = None,
    body: bytes = b"",
    language: LanguageCode = LanguageCode.PYTHON,
) -> RemotingCommand:
    """Return the response to a request; its header is written as JSON, whatever the request's is."""
    return RemotingCommand(
        code=code,
        language=language,
        opaque=asked.opaque,
        flag=_RESPONSE,
        remark=remark,
        ext_fields=ext_fields,
        body=body,
    )


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user that asks a broker; its representation shows neither the secret key nor the token."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


def signed(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return the request with the user's name and signature, as 4.x and 5.x want it.

    RocketMQ: AclClientRPCHook, AclUtils, AclSigner.
    """
    fields = {**(command.ext_fields or {}), ACCESS_KEY: credentials.access_key}
    if credentials.security_token:
        fields[SECURITY_TOKEN] = credentials.security_token
    fields[SIGNATURE] = signature(fields, command.body, credentials.secret_key)
    return replace(command, ext_fields=fields)


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the base64 of the HmacSHA1 of the values, in the order of their keys, and of the body."""
    import hmac  # noqa: PLC0415 - few agents sign anything, and it would stay in memory
    from base64 import b64encode  # noqa: PLC0415

    # Java compares strings by UTF-16.
    names = sorted((name for name in fields if name != SIGNATURE), key=lambda name: name.encode("utf-16-be"))
    content = "".join(fields[name] for name in names).encode() + body
    return b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()
