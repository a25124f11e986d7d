"""A target for atheris: `pip install atheris; python -m tests.fuzz.fuzz_frames -max_total_time=600`."""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sharedroutes.nameserver.server.proxy_protocol import ProxyHeader, ProxyHeaderError
from sharedroutes.remoting import FrameError, FrameReader, decode, encode
from tests.fuzz.mutations import corpus


def test_one_input(data: bytes) -> None:
    """Read frames and a PROXY header; what was read must be the same after it was written."""
    reader = FrameReader(max_header_bytes=262_144)
    with suppress(FrameError):
        commands = []
        with suppress(FrameError):
            commands = reader.feed(data)
        for command in commands or reader.before:
            assert decode(encode(command)[4:]) == command
    with suppress(ProxyHeaderError):
        assert 0 <= ProxyHeader().take(data) <= len(data)


def main() -> None:
    """Fuzz from the recorded frames on; what is found beside them stays in a folder for temporary files."""
    import atheris  # noqa: PLC0415 - nothing else needs it, and it has no wheels for every Python

    found = Path(tempfile.mkdtemp(prefix="sharedroutes-fuzz-"))
    for number, frame in enumerate(corpus()):
        (found / str(number)).write_bytes(frame)
    atheris.instrument_all()
    atheris.Setup([*sys.argv, str(found)], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
