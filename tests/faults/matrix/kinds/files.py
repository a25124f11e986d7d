"""Faults of files: topics.json in every ugly state, and no room for snapshots."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from tests.broker_agent.data_files import killed_in_the_middle, rewrite, rewrite_by_rename, topics_json
from tests.faults.checker.history import now_us
from tests.faults.matrix.fleet import HAS_AGENT, QUEUES
from tests.faults.matrix.kinds.kind import BELIEVED_S, LONG_S, SHORT_S, UNTIL_READ_S, Effect, Site, fault
from tests.faults.matrix.settings import BOUNDS, SENT_TO
from tests.faults.matrix.stores import Store

_REWRITES: Final = 5
_HALF_S: Final = 0.03
"""Long enough to be seen, and far shorter than the time between two looks."""

_WHOLE_S: Final = 0.5
_SEEN_S: Final = 2 * BOUNDS.heard_ms / 1_000
"""Longer than it takes until clients show a change of which they heard."""

_NO_JSON: Final = b'{"topicConfigTable": [}'
_INVALID: Final = (_NO_JSON, b'{"topicConfigTable": {"nonsense": 1}}')
_DISK_BYTES: Final = 32_768
_PAGE_BYTES: Final = 4_096


def _ugly(site: Site, spoil: Callable[[Path, bytes], None]) -> Iterator[Effect]:
    path = site.fleet.hosts["broker-a"].topics_path
    spoil(path, site.fleet.topics())
    try:
        yield Effect(path.name, site.lasts(SHORT_S))
    finally:
        site.fleet.write_topics()


def _write_backup(path: Path, content: bytes) -> None:
    path.with_name(f"{path.name}.bak").write_bytes(content)


@fault("files")
def topics_half(site: Site) -> Iterator[Effect]:
    """A broker is killed while it writes topics.json."""
    return _ugly(site, killed_in_the_middle)


@fault("files")
def topics_empty(site: Site) -> Iterator[Effect]:
    """topics.json is empty."""
    return _ugly(site, lambda path, _: rewrite(path, b""))


@fault("files")
def topics_invalid(site: Site) -> Iterator[Effect]:
    """topics.json is no JSON, or none of its topics makes sense."""
    return _ugly(site, lambda path, _: rewrite(path, site.rng.choice(_INVALID)))


@fault("files")
def topics_swapped(site: Site) -> Iterator[Effect]:
    """topics.json is renamed, and there is a new one."""
    return _ugly(site, rewrite_by_rename)


@fault("files")
def topics_removed(site: Site) -> Iterator[Effect]:
    """topics.json is removed."""
    return _ugly(site, lambda path, _: path.unlink())


@fault("files")
def topics_backup_newer(site: Site) -> Iterator[Effect]:
    """Only the .bak has what is new."""
    return _ugly(site, _write_backup)


@fault("files")
def topics_backup_older(site: Site) -> Iterator[Effect]:
    """topics.json is no JSON, and its .bak is one of before a topic was created."""
    path, lasts_s = site.fleet.hosts["broker-a"].topics_path, site.lasts(LONG_S)
    path.write_bytes(_NO_JSON)
    _write_backup(path, topics_json(SENT_TO, counter=0))
    try:
        yield Effect(path.name, lasts_s)
    finally:
        site.fleet.write_topics()


@fault("files")
def topics_grow(site: Site) -> Iterator[Effect]:
    """A broker creates topics, and deletes them."""
    for number in range(5):
        site.fleet.write_topics(f"extra-{number}")
    try:
        yield Effect("topics.json", site.lasts(SHORT_S))
    finally:
        site.fleet.write_topics()


@fault("files")
def topics_change(site: Site) -> Iterator[Effect]:
    """Two brokers change the topics that others have too, one after the other, and change them back."""
    for name in HAS_AGENT:
        site.fleet.write_topics(of=name, queues=2 * QUEUES)
    try:
        yield Effect("topics.json", site.lasts(UNTIL_READ_S), rests_s=_SEEN_S)
    finally:
        for name in HAS_AGENT:
            site.fleet.write_topics(of=name)


@fault("files")
def conf_half(site: Site) -> Iterator[Effect]:
    """For a moment only half of broker.conf is there, which names another broker; and so several times."""
    path = site.fleet.hosts["broker-a"].conf
    content = path.read_text()
    half = content.index("brokerName")
    for _ in range(_REWRITES):
        path.write_text(content[:half])
        time.sleep(_HALF_S)
        with path.open("a") as file:
            file.write(content[half:])
        site.let_pass(_WHOLE_S, "broker.conf is whole")
    yield Effect(path.name, 0.2)


@fault("files")
def conf_ahead(site: Site) -> Iterator[Effect]:
    """Somebody writes another port into broker.conf while the broker runs: it stays where it is."""
    host, began_us = site.fleet.hosts["broker-a"], now_us()
    content, stays = host.conf.read_text(), partial(site.auditor.is_leased, host.address)
    host.conf.write_text(content.replace(f"listenPort={host.port}", f"listenPort={host.listens}"))
    try:
        site.let_pass(BELIEVED_S, "the agent has read it")
        promised = site.promised("a broker is where it began", 1.0, stays)
        yield Effect(host.conf.name, 0.2, details=promised, began_us=began_us)
    finally:
        host.conf.write_text(content)


def _may_mount(_: Store) -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


@contextmanager
def _mounted(kind: str, folder: Path, options: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", kind, "-o", options, kind, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def _full_disk(folder: Path) -> Iterator[None]:
    """Let what is in a folder stay, and what is written there go to a disk that is full.

    Else who empties a file makes room for what it writes next, which on a full disk somebody else may take.
    """
    disk = folder.with_name(f"{folder.name}-disk")
    disk.mkdir(exist_ok=True)
    with _mounted("tmpfs", disk, f"size={_DISK_BYTES}"):
        upper, work = disk / "upper", disk / "work"
        upper.mkdir()
        work.mkdir()
        with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(_PAGE_BYTES))
        with _mounted("overlay", folder, f"lowerdir={folder},upperdir={upper},workdir={work}"):
            yield


@fault("processes", on=_may_mount)
def snapshot_disk_full(site: Site) -> Iterator[Effect]:
    """There is no room for the snapshot of a client, which begins twice with the one from before."""
    name = site.rng.choice(sorted(site.fleet.clients))
    client = site.fleet.clients[name]
    client.kill()
    with _full_disk(site.fleet.snapshots / name):
        site.start(client)
        yield Effect(name, site.lasts(LONG_S), (name,))
        client.kill()
    site.start(client)
