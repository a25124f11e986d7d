"""`python -m benchmarks.spark NAME [--quick] [--check] [--json FILE]`: the data pipeline; needs Java."""

from __future__ import annotations

from typing import Final

from sharedroutes.pipeline import PipelineError
from sharedroutes.registry import RegistryError

from ..kit.command import benchmarks_of, command

BENCHMARKS: Final = benchmarks_of(
    "benchmarks.spark", ("history", "ingest", "snapshot", "answers", "simulate", "fleet", "nameserver")
)

main: Final = command(BENCHMARKS, problems=(RegistryError, PipelineError))

if __name__ == "__main__":
    main(prog_name="python -m benchmarks.spark")
