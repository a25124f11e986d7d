"""Spark data sources of the registry, by name: what they read and write, and their options."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from .changes import ChangesSource
from .routes import RoutesSource
from .samples import SamplesSource

__all__ = ["SOURCES", "register"]

SOURCES: Final[tuple[type[DataSource], ...]] = (ChangesSource, RoutesSource, SamplesSource)
"""All of them."""


def register(spark: SparkSession) -> None:
    """Make the sources known to a session by their names."""
    for source in SOURCES:
        spark.dataSource.register(source)
