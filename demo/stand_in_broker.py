"""Stands in for a broker: `python stand_in_broker.py PORT NAME JOURNAL`.

A message is one line that begins with its id; the answer is a line with the id. The id is in the journal
before the answer is sent, and the operating system keeps it there when the process is killed.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LOOPBACK = "127.0.0.1"


async def serve(port: int, journal: BinaryIO) -> None:
    """Acknowledge messages at a loopback port until cancelled; raises OSError when the port is taken."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while (line := await reader.readline()).endswith(b"\n"):
                message_id = line.split(maxsplit=1)[0] + b"\n"
                journal.write(message_id)
                journal.flush()
                writer.write(message_id)
        writer.close()

    async with await asyncio.start_server(take, LOOPBACK, port) as server:
        await server.serve_forever()


def main(port: str, name: str, journal: str) -> None:
    """Take messages until killed."""
    try:
        with Path(journal).open("ab") as file:
            asyncio.run(serve(int(port), file))
    except OSError as error:
        sys.exit(f"Error: {name} cannot serve at port {port}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
