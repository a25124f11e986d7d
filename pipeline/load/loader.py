"""The bulk load of topic configurations into a registry, with what it did, or would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ...registry import RegistryConfig
from ..errors import TargetRefused
from ..schemas import LOAD_CHANGES
from ..sources.options import REGISTRY_OPTIONS, Options, Registry, one_of
from ..sources.routes_checks import Checked, check_batch, check_columns
from ..sources.routes_load import BrokerLoad, Rules, load_rows, refusal
from .forms import Configs, unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The registry that is loaded: where it is, and its namespace; raises BadOption."""

    url: str = "redis://127.0.0.1:6379"
    namespace: str = RegistryConfig().namespace

    def __post_init__(self) -> None:
        self.registry()

    def registry(self) -> Registry:
        """Return where that is; raises BadOption."""
        return one_of(Options("load", {"url": self.url, "namespace": self.namespace}, REGISTRY_OPTIONS))


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
        """The brokers that a load like this refuses, and why."""
        return {broker.broker: broker.refused for broker in self.brokers if broker.refused}

    @property
    def would_refuse(self) -> TargetRefused | None:
        """The error with which the load itself would end; None = with none. Only after a dry run."""
        return refusal(self.brokers, len(self.brokers), is_dry_run=True)


class LoadedInPart(TargetRefused):
    """Some brokers were refused while others were written; `summary` tells of all."""

    def __init__(self, message: str, summary: LoadSummary) -> None:
        super().__init__(message)
        self.summary = summary


def load(
    spark: SparkSession,
    configs: DataFrame | Configs,
    target: Target | None = None,
    rules: Rules | None = None,
) -> LoadSummary:
    """Load topic configurations, as TOPIC_CONFIGS, into a registry; return what was done.

    Everything is checked first: BadRows and BadOption mean that nothing was written. So does TargetRefused,
    unless it is LoadedInPart: then the other brokers were written, and those that it names came to life
    meanwhile, or hold what the registry did not write. Raises NewerSchema, StoreRefused and StoreUnavailable:
    a load that was interrupted goes on when it is run again.
    """
    target, rules = target or Target(), rules or Rules()
    rows = configs.rows if isinstance(configs, Configs) else configs
    check_columns(rows.schema)
    # A registry is on one server, so one process writes to it. Here it is this one: the sink does the same
    # in processes of its own, which take a second to start.
    checked = Checked.of_all(map(check_batch, _read(spark, configs).to_batches()))
    done = load_rows(target.registry(), rules, checked)
    summary = LoadSummary(rules.dry_run, tuple(done), _changes(spark, done) if rules.dry_run else None)
    problem = None if rules.dry_run else refusal(done, len(done), is_dry_run=False)
    if problem is not None:
        raise LoadedInPart(str(problem), summary)
    return summary


def _read(spark: SparkSession, configs: DataFrame | Configs) -> pa.Table:
    """Return all rows; raises BadRows, which names the line at which a file cannot be read."""
    if not isinstance(configs, Configs):
        return configs.toArrow()
    try:
        return configs.rows.toArrow()
    except (PySparkException, Py4JError) as error:
        raise unreadable(spark, configs.source, error) from error


def _changes(spark: SparkSession, done: Sequence[BrokerLoad]) -> DataFrame:
    rows = [asdict(change) for load in done for change in load.changes]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=LOAD_CHANGES.arrow))
