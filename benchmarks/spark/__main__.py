"""`python -m benchmarks.spark NAME [--quick] [--check] [--json FILE]`: the data pipeline; needs Java."""

from __future__ import annotations

from typing import Final

from sharedroutes.pipeline import PipelineError
from sharedroutes.registry import RegistryError

from ..kit.command import command
from ..kit.figures import Benchmark
from . import answers, fleet, history, ingest, nameserver, simulate, snapshot

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
