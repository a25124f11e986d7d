"""Real Java clients and mqadmin, in a process that is told what to do (Peer.java)."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from demo.nameserver.rocketmq import FEW_THREADS, OFTEN_SHARED_OUT
from tests.real.rocketmq import java
from tests.support import wait_until

Event: TypeAlias = dict[str, Any]

_SOURCE: Final = Path(__file__).with_name("Peer.java")
_PATIENCE_S: Final = 60.0
_numbers: Final = itertools.count()


def fresh(name: str) -> str:
    """Return a name that no other test of this process uses."""
    return f"{name}-{next(_numbers)}"


class Peer:
    """A Java process of a release; what it says is kept by the producer or consumer that it is about."""

    def __init__(self, release: str, folder: Path) -> None:
        (folder / "conf").mkdir(parents=True)
        (folder / "conf" / "logback_tools.xml").write_text("<configuration/>")  # mqadmin of 4.x wants one
        own = (
            f"-Duser.home={folder}",
            f"-Drocketmq.home.dir={folder}",
            "-Xmx256m",
            *FEW_THREADS,
            OFTEN_SHARED_OUT,
        )
        with Path(folder, "output").open("ab") as output:
            self._process = subprocess.Popen(
                java(release, *own, str(_SOURCE)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                cwd=folder,
            )
        self._events: list[Event] = []
        self._reader = threading.Thread(target=self._read, name="peer")
        self._reader.start()
        self.wait("", "ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def events(self, about: str, event: str) -> list[Event]:
        """Return what happened to a producer or consumer so far."""
        return [one for one in list(self._events) if one["id"] == about and one["event"] == event]

    def wait(self, about: str, event: str, count: int = 1, timeout_s: float = _PATIENCE_S) -> list[Event]:
        """Wait until something has happened so often; return all these events."""
        wait_until(
            lambda: len(self.events(about, event)) >= count or self._process.poll() is not None,
            timeout_s=timeout_s,
            pause_s=0.01,
            description=f"{count} times {event} of {about}: {self._events[-20:]}",
        )
        found = self.events(about, event)
        assert len(found) >= count, self._events[-20:]
        return found

    def admin(self, *arguments: str) -> str:
        """Return what a command of mqadmin prints."""
        number = fresh("admin")
        self.tell("admin", number, *arguments)
        return str(self.wait(number, "said")[0]["text"])

    def tell(self, *words: str) -> None:
        """Give it one command."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()

    @contextmanager
    def producer(self, name_servers: str) -> Iterator[Producer]:
        """Run a producer."""
        name = fresh("producer")
        self.tell("producer", name, name_servers)
        self.wait(name, "started")
        yield Producer(self, name)
        self.tell("stop", name)

    @contextmanager
    def consumer(
        self, name_servers: str, topic: str, *, group: str = "", ordered: bool = False
    ) -> Iterator[Consumer]:
        """Run a push consumer that begins with the first message."""
        name = fresh("consumer")
        self.tell("consumer", name, name_servers, group or f"of-{name}", topic, str(ordered).lower())
        self.wait(name, "started")
        yield Consumer(self, name)
        self.tell("stop", name)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"id":'):
                self._events.append(json.loads(line))


class Producer:
    """A producer in a Java process."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer = peer
        self.name = name
        self.bodies: list[str] = []
        """Of all messages that it was told to send."""

    def send(self, topic: str, mode: str, count: int, *, pause_ms: int = 0) -> Sequence[str]:
        """Send messages and wait until that is done; return their bodies."""
        done = len(self._peer.events(self.name, "done"))
        self.begin(topic, mode, count, pause_ms=pause_ms)
        self._peer.wait(self.name, "done", done + 1)
        return self.bodies[-count:]

    def begin(self, topic: str, mode: str, count: int, *, pause_ms: int = 0) -> None:
        """Begin to send messages: sync, async, oneway or ordered."""
        first = len(self.bodies)
        self.bodies += [f"{self.name}-{first + number}" for number in range(count)]
        self._peer.tell("send", self.name, topic, mode, str(first), str(count), str(pause_ms))

    def wait_sent(self, count: int) -> None:
        """Wait until so many messages were sent."""
        self._peer.wait(self.name, "sent", count)

    def wait_done(self) -> None:
        """Wait until all messages of one `begin` were sent, or have failed."""
        self._peer.wait(self.name, "done")

    @property
    def sent(self) -> list[Event]:
        """The messages that were sent."""
        return self._peer.events(self.name, "sent")

    @property
    def failed(self) -> list[Event]:
        """The messages that were not."""
        return self._peer.events(self.name, "failed")


class Consumer:
    """A consumer in a Java process."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer = peer
        self._name = name

    def wait_received(self, count: int) -> list[str]:
        """Wait for so many messages, some perhaps twice; return the bodies of all, in their order."""
        wait_until(
            lambda: len(set(self._bodies())) >= count,
            timeout_s=_PATIENCE_S,
            pause_s=0.01,
            description=f"{count} messages at {self._name}",
        )
        return self._bodies()

    def _bodies(self) -> list[str]:
        return [str(one["body"]) for one in self._peer.events(self._name, "received")]
