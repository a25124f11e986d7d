"""`python -m benchmarks NAME [--quick] [--check] [--json FILE]`."""

from __future__ import annotations

from typing import Final

from . import (
    agent,
    expiry,
    fanout,
    heartbeat,
    idle,
    lookup,
    memory,
    outage,
    propagate,
    refresh,
    register,
    rejoin,
    samples,
    scale,
    select,
    storm,
)
from .kit.command import command
from .kit.figures import Benchmark

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "lookup": lookup.BENCHMARK,
    "register": register.BENCHMARK,
    "heartbeat": heartbeat.BENCHMARK,
    "memory": memory.BENCHMARK,
    "scale": scale.BENCHMARK,
    "select": select.BENCHMARK,
    "samples": samples.BENCHMARK,
    "refresh": refresh.BENCHMARK,
    "outage": outage.BENCHMARK,
    "storm": storm.BENCHMARK,
    "propagate": propagate.BENCHMARK,
    "fanout": fanout.BENCHMARK,
    "expiry": expiry.BENCHMARK,
    "agent": agent.BENCHMARK,
    "idle": idle.BENCHMARK,
    "rejoin": rejoin.BENCHMARK,
}

main: Final = command(BENCHMARKS)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
