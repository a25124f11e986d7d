"""The bulk load of topic configurations into a registry, with what it did, or would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...registry import RegistryConfig
from ..sources.options import Options
from ..sources.registries import OPTIONS, one_of
from ..sources.routes_checks import MAX_PROBLEMS, check_batch, check_columns
from ..sources.routes_loading import BrokerLoad, Rules, load_rows, not_in_full
from ..sources.routes_rows import arrow_schema
from .tables import LOAD_CHANGES, LOAD_SUMMARY

__all__ = ["LoadSummary", "Target", "load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The registry that is loaded: where it is, and its namespace."""

    url: str = "redis://127.0.0.1:6379"
    namespace: str = RegistryConfig().namespace


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """What a load did with each broker, by name; or in a dry run would do."""

    dry_run: bool
    brokers: tuple[BrokerLoad, ...]
    changes: DataFrame | None = None
    """In a dry run: what would change, as LOAD_CHANGES."""

    @property
    def added(self) -> int:
        """Topics added, of all brokers."""
        return sum(broker.added for broker in self.brokers)

    @property
    def changed(self) -> int:
        """Topics changed, of all brokers."""
        return sum(broker.changed for broker in self.brokers)

    @property
    def removed(self) -> int:
        """Topics removed, of all brokers."""
        return sum(broker.removed for broker in self.brokers)

    @property
    def unchanged(self) -> int:
        """Topics that were as wanted, of all brokers."""
        return sum(broker.unchanged for broker in self.brokers)

    @property
    def refused(self) -> Mapping[str, str]:
        """The brokers that a load like this refuses, and why; only after a dry run."""
        return {broker.broker: broker.refused for broker in self.brokers if broker.refused}

    def table(self, spark: SparkSession) -> DataFrame:
        """Return the summary as LOAD_SUMMARY."""
        rows = [{name: getattr(broker, name) for name in LOAD_SUMMARY.names} for broker in self.brokers]
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(LOAD_SUMMARY)))


def load(
    spark: SparkSession, configs: DataFrame, target: Target | None = None, rules: Rules | None = None
) -> LoadSummary:
    """Load topic configurations, as TOPIC_CONFIGS, into a registry; return what was done.

    Everything is checked first: BadRows and BadOption mean that nothing was written. So does TargetRefused,
    unless it says that the other brokers were written: then one has come to life meanwhile. Raises
    NewerSchema, StoreRefused and StoreUnavailable: a load that was interrupted goes on when it is run again.
    """
    target, rules = target or Target(), rules or Rules()
    check_columns(configs.schema)
    options = Options("load", {"url": target.url, "namespace": target.namespace}, OPTIONS)
    registry = one_of(options)
    # A registry is on one server, so one process writes to it. Here it is this one: the sink does the same
    # in processes of its own, which take a second to start.
    problems: list[str] = []
    bad, parts = 0, []
    for batch in configs.toArrow().to_batches():
        checked = check_batch(batch)
        parts.append(pa.Table.from_batches([checked.rows]))
        problems += checked.problems[: max(0, MAX_PROBLEMS - len(problems))]
        bad += checked.bad_rows
    done = load_rows(registry, rules, parts, problems, bad)
    problem = None if rules.dry_run else not_in_full(done)
    if problem is not None:
        raise problem
    changes = _changes(spark, done) if rules.dry_run else None
    return LoadSummary(rules.dry_run, tuple(done), changes)


def _changes(spark: SparkSession, done: Sequence[BrokerLoad]) -> DataFrame:
    rows = [asdict(change) for load in done for change in load.changes]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(LOAD_CHANGES)))
