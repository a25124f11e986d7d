"""The times of the matrix, shorter than the defaults so that a fault takes seconds; what is sent where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sharedroutes.client import ClientConfig, HintConfig, RetryPolicy
from sharedroutes.client.config import ReadFrom
from sharedroutes.registry import RegistryConfig
from tests.faults.checker.history import Bounds

HEARTBEAT_S: Final = 1.0
LEASE_S: Final = 4.0
FRONT_LEASE_MS: Final = 8_000
"""What brokers say to fronts: longer than agents say, and than it takes to find out that one hangs."""

CALL_S: Final = 1.0
REGISTRY: Final = RegistryConfig(call_deadline_s=CALL_S, connect_deadline_s=CALL_S)
"""Of those who look, and do nothing besides."""

HOLD_S: Final = 30.0
"""The default, which fronts have in any case."""

SWEEPER_LEASE_S: Final = 0.5
"""Of clients: they leave a replica that stands still for three of them, before leases end there."""

REFRESH_S: Final = 6.0
JITTER_S: Final = 1.5
"""So much sooner than a refresh that it shows whether a client reads because of a loss."""

SELDOM_S: Final = 30.0
"""The default, for the other client: what it hears, and its looks at leases, have to do."""

RECONNECT_S: Final = 2.0

_MORE: Final = tuple(f"more-{number}" for number in range(1, 5))
"""Topics that nobody uses: with them, and CHUNK_TOPICS, a registration takes more than one round trip."""

CHUNK_TOPICS: Final = 1
"""Of agents."""

ALONE: Final = "refunds"
"""On broker-a only; not the first of its topics, which a heartbeat looks for now and then."""

ON: Final[Mapping[str, tuple[str, ...]]] = {
    "broker-a": ("orders", ALONE, *_MORE),
    "broker-b": ("orders", "payments"),
    "broker-c": ("orders", "payments"),
}
"""The topics of each broker."""

TOPICS: Final = tuple(sorted({topic for topics in ON.values() for topic in topics} - {*_MORE}))
"""Those that clients use."""

SENT_TO: Final = "orders"
"""On all brokers: no fault takes all of them."""

ALSO_SENT_TO: Final = "payments"
"""On two of them."""

SLAVE: Final = ("broker-a", 1)
"""The one that a fault may bring."""

NEWCOMER: Final = ("broker", 0)
"""Another one that a fault may bring: the names of all others begin with its name."""

POLICY: Final = RetryPolicy(retries=2, deadline_s=3.0)


def snapshot_of(folder: Path, client: str) -> Path:
    """Return where a client keeps its snapshot, below the folder of the run."""
    return folder / "snapshots" / client / "routes.json"


def client_config(snapshot: Path, where: ReadFrom = "primary", *, refresh_s: float) -> ClientConfig:
    """Return the settings of the clients, who sweep when neither agents nor fronts reach the store."""
    return ClientConfig(
        registry=RegistryConfig(
            call_deadline_s=CALL_S, connect_deadline_s=CALL_S, sweeper_lease_s=SWEEPER_LEASE_S
        ),
        topics=TOPICS,
        refresh_s=refresh_s,
        jitter_s=JITTER_S,
        reconnect_s=RECONNECT_S,
        guard_hold_s=HOLD_S,
        snapshot_path=snapshot,
        read_from=where,
        sweep=True,
        hints=HintConfig(),
    )


BOUNDS: Final = Bounds(
    lease_ms=round(LEASE_S * 1_000),
    stale_ms=1_500,  # leases are looked at every second (ClientConfig.tail_s)
    fronts_ms=FRONT_LEASE_MS,
    hold_ms=round(HOLD_S * 1_000),
    jitter_ms=round(JITTER_S * 1_000),
    reread_ms=round((JITTER_S + 1.0) * 1_000),
    converge_ms=25_000,  # a front comes back within 6 s, and reads everything within 15 s
    first_failures=5,  # so many in a row eject a broker (Tuning in client/faults/config.py)
    rss_kb=12_000,
    threads=3,
    descriptors=12,
    connections=12,
)
