"""A service that comes for one fault, and forks: python -m tests.faults.matrix.visitor URL FILE.

It writes into FILE which brokers it chooses, and so do its forks, which end with it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from sharedroutes.client import ClientConfig, RouteClient
from sharedroutes.daemon.logs import LogOutput
from sharedroutes.registry import RegistryError
from tests.faults.matrix.fleet import QUEUES
from tests.faults.matrix.settings import ALONE, ON, REGISTRY, SENT_TO

ASK_AND_FORK: Final = signal.SIGUSR1
"""Tells it to ask for a topic that it does not know, and to fork twice before there is an answer."""

COPIES: Final = 3
"""It and its forks: the first asks for the same topic, the second only chooses."""

_NOBODYS: Final = "nobody-has-this"
"""A topic of no broker: its messages go to the brokers of SENT_TO, its default topic."""

_SAYS_S: Final = 0.1
_SENDS_S: Final = 0.1


def chosen_in(path: Path) -> dict[int, tuple[list[str], list[str]]]:
    """Return what each process said last: the brokers it chooses, for SENT_TO and for a topic of nobody."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    said = [msgspec.json.decode(line, type=tuple[int, list[str], list[str]]) for line in lines]
    return {pid: (names, lent) for pid, names, lent in said}


def _chosen(client: RouteClient, topic: str) -> list[str]:
    with suppress(RegistryError):
        return sorted({client.select_queue(topic).broker_name for _ in range(QUEUES * len(ON))})
    return []


def _say(client: RouteClient, path: Path, goes_on: Callable[[], bool]) -> None:
    while goes_on():
        said = os.getpid(), _chosen(client, SENT_TO), _chosen(client, _NOBODYS)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(said) + b"\n")
        time.sleep(_SAYS_S)


def _ask(client: RouteClient) -> None:
    with suppress(RegistryError):
        client.route(ALONE)


def main(url: str, path: str) -> None:
    """Say what is chosen until killed."""
    config = ClientConfig(registry=REGISTRY, topics=(SENT_TO,), default_topic=SENT_TO)
    forks = threading.Event()
    signal.signal(ASK_AND_FORK, lambda *_: forks.set())
    with LogOutput("json", "info"), RouteClient.from_url(url, config) as client:
        _say(client, Path(path), lambda: not forks.is_set())
        threading.Thread(target=_ask, args=(client,), daemon=True).start()
        time.sleep(_SENDS_S)
        parent = os.getpid()
        for asks in (True, False):
            if not os.fork():
                if asks:  # what the parent has asked as well
                    _ask(client)
                _say(client, Path(path), lambda: os.getppid() == parent)
                os._exit(0)
        _say(client, Path(path), lambda: True)


if __name__ == "__main__":
    main(*sys.argv[1:])
