"""The Spark session of the tests that need it, in tests/pipeline/spark: one a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from demo.pipeline import SMALL
from sharedroutes.pipeline.errors import JavaMissing
from sharedroutes.pipeline.session import SessionConfig, check_java, session

SESSION = SessionConfig(
    master="local[2]",
    app_name="sharedroutes-tests",
    driver_memory="1g",
    log_level="OFF",
    settings={
        "spark.ui.showConsoleProgress": "false",
        **SMALL,
    },
)


def need_java() -> None:
    """Skip without a Java that Spark runs on, which fails where CI=true."""
    try:
        check_java(os.environ)
    except JavaMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the session, with the pipeline's sources."""
    need_java()
    home = _home(tmp_path_factory.mktemp("spark"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        found = session(SESSION)
    yield found
    found.stop()


def _home(folder: Path) -> Path:
    """Return a home of Spark that lets its workers import PySpark as it is installed.

    At home they import it from a zip, without byte code: each of them starts twice as slowly, and tests start
    dozens.
    """
    installed = Path(pyspark.__file__).parent
    for name in ("bin", "jars"):
        (folder / name).symlink_to(installed / name)
    (folder / "python" / "lib").mkdir(parents=True)
    (folder / "python" / "lib" / "pyspark.zip").symlink_to(installed.parent)
    return folder
