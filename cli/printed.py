"""What each command prints for programs, as `json-schema` tells it."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isfunction
from typing import Any, Final, NamedTuple

from ..registry.history import Before, BrokerHistory, Column, TableAt, TopicHistory
from ..registry.history import Difference as DifferenceOfTimes
from . import records


class Printed(NamedTuple):
    """What a command prints for programs."""

    record: Any
    """The type of a record, or the types of its fields by name; or a function that returns either."""

    is_list: bool = True
    """Whether there may be any number of records; else there is one."""

    @property
    def shape(self) -> Any:
        """The type of a record, or the types of its fields."""
        return self.record() if isfunction(self.record) else self.record


def _agent_page() -> Any:
    """Return the types of what an agent shows; raises ModuleNotFoundError without the extra `agent`."""
    from ..broker_agent.process.process_status import PAGE  # noqa: PLC0415 - and who asks an agent may lack it

    return PAGE


def _checked() -> Any:
    """Return the type of what `agent --check` prints, likewise."""
    from ..broker_agent.process.check import Checked  # noqa: PLC0415 - as above

    return Checked


_TYPES: Final = {"bigint": int, "string": str, "array<string>": list[str]}
"""Of the columns of answers, as Spark's DDL names them."""


def _answer(columns: Iterable[Column]) -> Printed:
    types = {column.name: _TYPES[column.type] for column in columns}
    return Printed(types | dict.fromkeys(types.keys() & {"id"}, int | None))


PRINTED: Final = {
    "acl": Printed(records.AclLine, is_list=False),
    "agent": Printed(_checked),
    "agent-ctl drain": Printed(records.ToldBroker),
    "agent-ctl master": Printed(records.AgentMaster),
    "agent-ctl pause": Printed(records.ToldBroker),
    "agent-ctl reload": Printed(records.ReloadProblem),
    "agent-ctl resume": Printed(records.ToldBroker),
    "agent-ctl status": Printed(_agent_page, is_list=False),
    "before": _answer(Before.columns),
    "brokers": Printed(records.BrokerAddresses | records.ReplicaEntry),
    "changes": Printed(records.ChangeRecord),
    "clusters": Printed(records.Cluster),
    "delete-topic": Printed(records.BrokerName),
    "diff": _answer(DifferenceOfTimes.columns),
    "doctor": Printed(records.DoctorFinding),
    "forget": Printed(records.ChangedBroker),
    "health": Printed(records.Health, is_list=False),
    "history broker": _answer(BrokerHistory.columns),
    "history topic": _answer(TopicHistory.columns),
    "import": Printed(records.Import, is_list=False),
    "kv delete": Printed(records.Removed, is_list=False),
    "kv get": Printed(records.Value, is_list=False),
    "kv list": Printed(records.Namespace | records.KeyValue),
    "kv put": Printed(records.Put, is_list=False),
    "leases": Printed(records.Lease),
    "lift": Printed(records.ChangedBroker),
    "pipeline compact": Printed(records.CompactedDay),
    "pipeline ingest": Printed(records.Ingested, is_list=False),
    "pipeline load": Printed(records.LoadedBroker),
    "pipeline report": Printed(records.WrittenReport, is_list=False),
    "profiles": Printed(records.ProfileEntry),
    "rebuild": Printed(records.Mended),
    "routes": Printed(records.Route),
    "table": _answer(TableAt.columns),
    "topics": Printed(records.Topic),
    "verify": Printed(records.Inconsistency),
    "wipe": Printed(records.ChangedBroker),
}
"""By the words of the command; those of `pipeline ask` print what the commands of the same name do."""
