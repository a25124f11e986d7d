"""A process that stands in for a broker: it takes messages, keeps their ids and acknowledges them.

A message is one line that begins with its id; the answer is a line with the id. The id is in the journal
before the answer is sent, and the operating system keeps it there when the process is killed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO, Final

import click

_LOOPBACK: Final = "127.0.0.1"


class _Session(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, journal: BinaryIO) -> None:
        self._journal = journal
        self._rest = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        *messages, self._rest = (self._rest + data).split(b"\n")
        ids = b"".join(message.partition(b" ")[0] + b"\n" for message in messages)
        if ids and self._transport is not None:
            self._journal.write(ids)
            self._journal.flush()
            self._transport.write(ids)


async def serve(port: int, journal: BinaryIO) -> None:
    """Take messages at a port of the loopback interface until cancelled; raises OSError when it is taken."""
    server = await asyncio.get_running_loop().create_server(lambda: _Session(journal), _LOOPBACK, port)
    async with server:
        await server.serve_forever()


@click.command()
@click.option("--port", type=click.IntRange(1, 65_535), required=True, help="Where it takes messages.")
@click.option("--name", required=True, help="The broker it stands in for.")
@click.option(
    "--journal",
    "journal_path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file that keeps the ids of the messages, a line each.",
)
def main(port: int, name: str, journal_path: Path) -> None:
    """Stand in for a broker: take messages and acknowledge them, until killed."""
    try:
        with journal_path.open("ab") as journal:
            asyncio.run(serve(port, journal))
    except OSError as error:
        raise click.ClickException(f"{name} cannot serve at port {port}: {error}") from error


if __name__ == "__main__":
    main(prog_name="python -m sharedroutes.cli.stand_in_broker")
