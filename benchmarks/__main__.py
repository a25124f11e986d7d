"""`python -m benchmarks NAME... [--quick] [--check] [--out FILE]`."""

from __future__ import annotations

import signal
import sys
from typing import Final

from .kit.command import benchmarks_of, command

BENCHMARKS: Final = benchmarks_of(
    "benchmarks",
    (
        *(
            "lookup",
            "register",
            "heartbeat",
            "memory",
            "table_size",
            "select",
            "samples",
            "refresh",
            "outage",
        ),
        *("storm", "propagate", "fanout", "expiry", "agent", "idle", "rejoin"),
        *("nameserver", "nameserver_faults"),
        *("peers.register", "peers.lookup", "peers.propagate", "peers.crash", "peers.watchers"),
        *("scale.clients", "scale.replicas", "scale.brokers", "scale.topics"),
    ),
)

SOON: Final = (
    *("heartbeat", "propagate"),
    *("peers.register", "peers.lookup", "peers.propagate", "peers.crash", "peers.watchers"),
)
"""What a quick run is about where none is named: three minutes, on two cores that do nothing else."""

main: Final = command(BENCHMARKS, soon=SOON)

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that servers end, too
    main(prog_name="python -m benchmarks")
