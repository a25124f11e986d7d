"""An ingest in a process of its own, to be killed: it tells each batch in a line, and stops at end of input.

python -m tests.pipeline.ingest_child URL OUT once|endless [MASTER]

LEASE_S says how long it waits for the lock of another one, and takes it if that one stands still.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from functools import partial

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.ingest import IngestConfig, IngestProgress, ingest, job
from sharedroutes.pipeline.ingest.files import only_one
from sharedroutes.pipeline.session import session
from tests.fix_spark import SESSION

MOST_A_BATCH = 200
MASTER = "local[2,4]"
"""A task whose worker was killed is tried again, as on a cluster."""


ON_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def main(url: str, out: str, mode: str, master: str = MASTER) -> None:
    """Ingest until standard input ends, or once; the last line says how it ended."""
    stop = threading.Event()
    threading.Thread(target=_await_end, args=(stop,), daemon=True).start()
    config = IngestConfig(
        out=out, url=url, once=mode == "once", trigger_s=0.0, max_changes_per_trigger=MOST_A_BATCH
    )
    if lease_s := os.environ.get("LEASE_S"):
        vars(job)["only_one"] = partial(only_one, lease_s=float(lease_s))
    spark = session(replace(SESSION, master=master, settings={**SESSION.settings, **ON_LOOPBACK}))
    _tell("ready")
    try:
        summary = ingest(spark, config, stop=stop, on_progress=_tell_batch)
        _tell(f"done {summary.rows}")
    except PipelineError as error:
        _tell(f"failed {type(error).__name__}: {error}")
    spark.stop()


def _await_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def _tell_batch(progress: IngestProgress) -> None:
    _tell(f"batch {progress.written.batch} {progress.written.rows}")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
