"""One request or response (RocketMQ: RemotingCommand)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .codes import CURRENT_VERSION, LanguageCode, SerializeType

_RESPONSE: Final = 1
_ONEWAY: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotingCommand:
    """What one frame says."""

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
    """The fields of the header class of this code, all as text; JSON tells None from {}."""

    body: bytes = field(default=b"", repr=False)
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether nobody waits for an answer, so that none may be sent."""
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
    version: int = CURRENT_VERSION,
    serialize_type: SerializeType = SerializeType.JSON,
) -> RemotingCommand:
    """Return the response to a request; a server writes its header as it likes, and not as it was asked."""
    return RemotingCommand(
        code=code,
        language=language,
        version=version,
        opaque=asked.opaque,
        flag=_RESPONSE,
        remark=remark,
        ext_fields=ext_fields,
        body=body,
        serialize_type=serialize_type,
    )
