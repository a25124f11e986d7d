"""`python -m benchmarks.spark NAME [--quick] [--check] [--json FILE]`: the data pipeline; needs Java."""

from __future__ import annotations

from typing import Final

from sharedroutes.pipeline import PipelineError
from sharedroutes.registry import RegistryError

from . import answers, fleet, history, ingest, nameserver, simulate, snapshot
from .command import command
from .harness import Benchmark

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "history": history.BENCHMARK,
    "ingest": ingest.BENCHMARK,
    "snapshot": snapshot.BENCHMARK,
    "answers": answers.BENCHMARK,
    "simulate": simulate.BENCHMARK,
    "fleet": fleet.BENCHMARK,
    "nameserver": nameserver.BENCHMARK,
}

main: Final = command(BENCHMARKS, problems=(RegistryError, PipelineError))

if __name__ == "__main__":
    main(prog_name="python -m benchmarks.spark")
