"""RocketMQ's remoting protocol: frames and commands, without a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..registry.lazy_imports import lazy_imports
from .codes import (
    CURRENT_VERSION,
    ClientErrorCode,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SerializeType,
)

if TYPE_CHECKING:
    from .command import Credentials, FrameError, RemotingCommand, request, response_to, signed
    from .frames import MAX_FRAME_BYTES, FrameReader, FrameTemplate, decode, encode
else:  # a client of the registry has the codes and sends no frame
    __getattr__, __dir__ = lazy_imports(
        __name__,
        {
            **dict.fromkeys(
                ("Credentials", "FrameError", "RemotingCommand", "request", "response_to", "signed"),
                "command",
            ),
            **dict.fromkeys(
                ("MAX_FRAME_BYTES", "FrameReader", "FrameTemplate", "decode", "encode"), "frames"
            ),
        },
    )

__all__ = [
    "CURRENT_VERSION",
    "MAX_FRAME_BYTES",
    "ClientErrorCode",
    "Credentials",
    "FrameError",
    "FrameReader",
    "FrameTemplate",
    "LanguageCode",
    "RemotingCommand",
    "RequestCode",
    "ResponseCode",
    "SerializeType",
    "decode",
    "encode",
    "request",
    "response_to",
    "signed",
]
