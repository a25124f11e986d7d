"""`python -m benchmarks NAME [--quick] [--check] [--out FILE]`."""

from __future__ import annotations

from typing import Final

from .kit.command import benchmarks_of, command

BENCHMARKS: Final = benchmarks_of(
    "benchmarks",
    (
        *("lookup", "register", "heartbeat", "memory", "scale", "select", "samples", "refresh", "outage"),
        *("storm", "propagate", "fanout", "expiry", "agent", "idle", "rejoin"),
        *("nameserver", "nameserver_faults"),
        *("peers.register", "peers.lookup", "peers.propagate", "peers.crash", "peers.watchers"),
    ),
)

main: Final = command(BENCHMARKS)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
