"""The two kinds of name servers that the tests run: RocketMQ's own, and our front."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tests.ports import free_port
from tests.real.rocketmq import RealNameServer, RealProcess

Kind: TypeAlias = Literal["original", "front"]

ROOT: Final = Path(__file__).resolve().parents[2]


class Front(RealProcess):
    """A name server front, as a process of its own; `settings` are in a file as mqnamesrv takes it."""

    def __init__(
        self, redis_url: str, folder: Path, settings: Mapping[str, str] = {}, *, http: str = "off"
    ) -> None:
        folder.mkdir(parents=True)
        port = free_port()
        command = [sys.executable, "-m", "sharedroutes.nameserver"]
        command += ["--listen", f"127.0.0.1:{port}", "--redis", redis_url, "--http", http]
        conf = folder / "namesrv.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command += ["--config", str(conf)]
        super().__init__(command, folder, port)


class NameServers:
    """Name servers that belong together: what brokers and clients are told."""

    def __init__(self, kind: Kind, members: Sequence[RealProcess]) -> None:
        self.kind = kind
        self.members = members

    @property
    def addresses(self) -> str:
        """The list as RocketMQ's settings want it."""
        return ";".join(member.address for member in self.members)

    def __getitem__(self, place: int) -> RealProcess:
        return self.members[place]


@contextmanager
def name_servers(
    kind: Kind,
    folder: Path,
    *,
    redis_url: str,
    release: str = "5.5.0",
    count: int = 2,
    settings: Mapping[str, str] = {},
) -> Iterator[NameServers]:
    """Run name servers; fronts share one registry, and originals know nothing of each other."""
    members = [
        RealNameServer(release, folder / f"namesrv-{place}", settings)
        if kind == "original"
        else Front(redis_url, folder / f"front-{place}", settings)
        for place in range(count)
    ]
    with ExitStack() as stack:
        for member in members:
            stack.enter_context(member)
        yield NameServers(kind, members)
