"""How Spark runs where queries are small and many, as in the demo and in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharedroutes.pipeline.session import LOGGING

SMALL: Final[Mapping[str, str]] = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.lightweightPlanChangeValidation": "false",
    # Where only one compiler runs, the room for its code is a fifth by default, and is soon full.
    "spark.driver.extraJavaOptions": (
        f"{LOGGING} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    ),
}
"""What makes long queries fast makes these slow."""
