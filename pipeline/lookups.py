"""Spark's classes as the driver names them in each operation, looked up once."""

from __future__ import annotations

from typing import Any, Final

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

_CLASSES: Final = ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils")
"""What PySpark asks py4j for whenever it makes a column, by the names that it asks with."""


class _Remembered:
    """A class of Java whose methods are asked for once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._found, name)
        setattr(self, name, method)
        return method


def remember_classes(spark: SparkSession) -> None:
    """Let a driver look up Spark's functions once: py4j asks Java at every use, which looks through all jars.

    That was more than half of the time that a plan takes to make; with 4.3, columns take three times as long
    without it. PySpark has no public way: where a version keeps its classes elsewhere, nothing is done.
    """
    classes = getattr(spark.sparkContext, "_jvm", None)
    for name in _CLASSES:
        found = getattr(classes, name, None)
        if isinstance(found, JavaClass):
            setattr(classes, name, _Remembered(found))
