"""RocketMQ's remoting protocol: frames and commands, without a socket."""

from __future__ import annotations

from .codes import (
    CURRENT_VERSION,
    ClientErrorCode,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SerializeType,
)
from .command import Credentials, FrameError, RemotingCommand, request, response_to, signed
from .frames import MAX_FRAME_BYTES, FrameReader, FrameTemplate, decode, encode

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
