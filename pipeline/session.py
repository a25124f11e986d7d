"""The Spark session of the pipeline, local by default, and the Java that it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from .errors import BadOption, JavaMissing
from .sources import register

LOCAL: Final = "local[*,4]"
"""All cores; a task that fails is tried again, as on a cluster."""

_ALWAYS: Final = {
    # Days and hours are cut where the store's clock cuts them, whatever zone a machine stands in.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark begins to sort when it has met 128 groups of which it collects lists; there are many, and small.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",
    # What is partitioned by the hash of a topic is joined by topic as it lies.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
_FROM_THE_START: Final = {
    # Else each operation on a column looks up who called it: half of the time that it takes to make a plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
# Workers of a cluster import the zip of --py-files by a relative path.
LOGGING: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).resolve().with_name('log4j2.properties').as_uri()}"
)
_LATER: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Java's second compiler begins after ten times as many calls: rows soon make them, planning does not."""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Spark's launcher sets it for programs that it starts."""

_LOCAL_ONLY: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A load brings all its rows here; the heap is bound enough.
    "spark.driver.maxResultSize": "0",
    # Two hundred, the default, suit a cluster; here each of them is a task that waits for the same cores.
    "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 2)),
    # What counts is how soon it is done, not the longest pause; and this one needs little beside the heap.
    "spark.driver.extraJavaOptions": f"{LOGGING} -XX:+UseParallelGC {_LATER}",
}

LEAST_VERSION: Final = 17
"""Spark 4 runs on Java 17 and newer."""

_ADVICE: Final = (
    f"install Java {LEAST_VERSION} or newer (Debian: apt-get install default-jre-headless; "
    "macOS: brew install openjdk), or let JAVA_HOME name one"
)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_S: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """How Spark runs: where, with how much memory, and what else it is told."""

    master: str = ""
    """Empty = what spark-submit says, or this process: local[*]."""

    app_name: str = "sharedroutes"
    driver_memory: str = "1536m"
    """Of the Java process; in local mode the executors live in it. It takes all of it, and spills to disk."""

    log_level: str = "ERROR"
    settings: Mapping[str, str] = field(default_factory=dict)
    """More settings of Spark, which go before all others."""

    @property
    def is_here(self) -> bool:
        """Whether Spark runs in this process, and looks for paths without a scheme on this machine."""
        return (self.master or LOCAL).startswith("local") and _SUBMITTED not in os.environ

    def spark_settings(self, *, submitted: bool = False) -> dict[str, str]:
        """Return all settings by Spark's names; `submitted`: spark-submit has started this process."""
        found = _ALWAYS | _FROM_THE_START
        master = self.master or ("" if submitted else LOCAL)
        if master:
            found["spark.master"] = master
        if master.startswith("local") and not submitted:
            found |= _LOCAL_ONLY | {"spark.driver.memory": self.driver_memory}
        return found | dict(self.settings)


def session(config: SessionConfig | None = None) -> SparkSession:
    """Return the Spark session with the sources of the pipeline registered; stop() ends it.

    Workers run the interpreter of this process, unless PYSPARK_PYTHON names another one.
    Raises JavaMissing.
    """
    config = config or SessionConfig()
    check_java(os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: SparkSession.Builder = SparkSession.Builder().appName(config.app_name)
    for name, value in config.spark_settings(submitted=_SUBMITTED in os.environ).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(config.log_level)
    _pass_on_zips(spark)
    register(spark)
    return spark


@contextmanager
def running(config: SessionConfig | None = None) -> Iterator[SparkSession]:
    """Give a session; Spark is stopped afterwards if it was started here, and else left as it was.

    Raises JavaMissing, and BadOption where Spark runs in this process already, on another master.
    """
    config = config or SessionConfig()
    there = SparkSession.getActiveSession()
    if there is None:
        spark = session(config)
        try:
            yield spark
        finally:
            spark.stop()
        return
    master = there.sparkContext.master
    if config.master not in ("", master):
        what = f"Spark runs in this process already, on {master}: name that one, or none"
        raise BadOption.of("session", "master", what)
    register(there)
    with _set(there, _ALWAYS | dict(config.settings)):
        yield there


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Let a session have some settings for as long as the block lasts."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _pass_on_zips(spark: SparkSession) -> None:
    """Let processes beside the driver import what --py-files brought; Spark does so for its workers only."""
    zips = [path for path in sys.path if path.endswith((".zip", ".egg")) and Path(path).is_file()]
    if zips:
        spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(zips)


def check_java(environment: Mapping[str, str]) -> Path:
    """Return the Java program that Spark's launcher will start: $JAVA_HOME/bin/java, or else the one on PATH.

    Raises JavaMissing for none, and for an old one.
    """
    home = environment.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise JavaMissing(f"the pipeline runs on Spark, which needs Java, and there is none: {_ADVICE}")
    if not Path(found).is_file():
        raise JavaMissing(f"JAVA_HOME is {home}, where there is no bin/java: {_ADVICE}")
    try:
        answer = subprocess.run(  # noqa: S603 - the program that Spark would start
            [found, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{found} does not run ({error}): {_ADVICE}") from error
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is None:
        raise JavaMissing(f"{found} does not say its version: {_ADVICE}")
    if int(version[1]) < LEAST_VERSION:
        raise JavaMissing(f"{found} is Java {version[1]}: {_ADVICE}")
    return Path(found)
