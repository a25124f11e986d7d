"""redis-benchmark: what a server does for a client that does nothing else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

ABSENT = "redis-benchmark is not on PATH: {} is compared with nothing"


def rate(port: int, requests: int, command: Sequence[str], *, pipeline: int, keys: int) -> float:
    """Return how many requests a second one connection gets done; raises FileNotFoundError without it."""
    options = f"-p {port} -c 1 -P {pipeline} -n {requests} -r {keys} --csv".split()
    done = subprocess.run(("redis-benchmark", *options, *command), capture_output=True, text=True, check=True)
    return rate_of(done.stdout)


def rate_of(csv: str) -> float:
    """Return the requests a second that `redis-benchmark --csv` reports for its one test."""
    return float(csv.splitlines()[-1].split(",")[1].strip('"'))


def is_there() -> bool:
    """Whether it is installed."""
    return shutil.which("redis-benchmark") is not None
