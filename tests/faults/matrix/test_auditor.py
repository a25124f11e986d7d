"""What the auditor sees of a lease, also at a server that takes nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.checker.history import Lease, Writer, read_file
from tests.faults.matrix.auditor import KEYS, Auditor
from tests.faults.matrix.stores import Standalone

LEASE: Final = KEYS.lease("broker-a", 0)


@pytest.fixture
def store() -> Iterator[Standalone]:
    with Standalone() as store:
        yield store


def looks_of_broker_a(folder: Path) -> list[int | None]:
    """Return the epochs that were written down, by time."""
    events = sorted(read_file(folder / "auditor.jsonl"), key=lambda event: event.at_us)
    looks = [event for event in events if isinstance(event, Lease)]
    return [look.epoch for look in looks if (look.broker, look.id) == ("broker-a", 0)]


def test_a_lease_is_seen_at_a_full_server_and_so_is_its_end(tmp_path: Path, store: Standalone) -> None:
    admin = store.admin(store.servers[0])
    admin.set(LEASE, "7 127.0.0.1:1", px=60_000)
    admin.config_set("maxmemory", "1mb")
    with Writer(tmp_path, "auditor") as history:
        auditor = Auditor(store, history)
        auditor.look()
        auditor.look()
        assert looks_of_broker_a(tmp_path) == [7], "what is as before is said now and then only"
        admin.delete(LEASE)
        auditor.look()
    assert looks_of_broker_a(tmp_path) == [7, 7, None], "when it was there last, and that it is gone"


def test_what_a_fault_does_is_done_in_the_step_of_a_look(tmp_path: Path, store: Standalone) -> None:
    store.admin(store.servers[0]).set(LEASE, "7 127.0.0.1:1", px=60_000)
    with Writer(tmp_path, "auditor") as history:
        auditor = Auditor(store, history)
        assert auditor.at_primary(("DEL", LEASE)) == [1]
        auditor.look()
    assert looks_of_broker_a(tmp_path) == [7, 7, None]
