"""`json-schema`: what each command prints with `--output json` or `ndjson`, as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import click

from ..broker_agent.process.check import Checked
from ..broker_agent.process.process_status import PAGE
from ..daemon.printing import print_record
from ..registry.history import Before, BrokerHistory, Column, TableAt, TopicHistory
from ..registry.history import Difference as DifferenceOfTimes
from . import records
from .doctor.finding import Finding
from .main import ALIASES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


class Printed(NamedTuple):
    """What a command prints for programs."""

    record: Any
    """The type of a record, or the types of its fields by name."""

    is_list: bool = True
    """Whether there may be any number of records; else there is one."""


_TYPES: Final = {"bigint": int, "string": str, "array<string>": list[str]}
"""Of the columns of answers, as Spark's DDL names them."""


def _answer(columns: Iterable[Column]) -> Printed:
    types = {column.name: _TYPES[column.type] for column in columns}
    return Printed(types | dict.fromkeys(types.keys() & {"id"}, int | None))


PRINTED: Final = {
    "acl": Printed(records.AclLine, is_list=False),
    "agent": Printed(Checked),
    "agent-ctl drain": Printed(records.ToldBroker),
    "agent-ctl master": Printed(records.AgentMaster),
    "agent-ctl pause": Printed(records.ToldBroker),
    "agent-ctl reload": Printed(records.ReloadProblem),
    "agent-ctl resume": Printed(records.ToldBroker),
    "agent-ctl status": Printed(PAGE, is_list=False),
    "before": _answer(Before.columns),
    "brokers": Printed(records.BrokerAddresses | records.ReplicaEntry),
    "changes": Printed(records.ChangeRecord),
    "clusters": Printed(records.Cluster),
    "delete-topic": Printed(records.BrokerName),
    "diff": _answer(DifferenceOfTimes.columns),
    "doctor": Printed(Finding),
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


def _following(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return how the name of a command may go on after the words that stand there."""
    before = [*(context.params.get("words") or ())]
    names = [name.split() for name in (*PRINTED, *ALIASES)]
    words = {name[len(before)] for name in names if name[: len(before)] == before and len(name) > len(before)}
    return sorted(word for word in words if word.startswith(incomplete))


@click.command("json-schema")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...", shell_complete=_following)
@click.option("--line", is_flag=True, help="Of one line of `--output ndjson` instead of the document.")
def json_schema(words: tuple[str, ...], *, line: bool) -> None:
    """Print the JSON Schema of what COMMAND prints with `--output json`, as in `json-schema kv list`."""
    name = " ".join(words).removeprefix("pipeline ask ")
    name = ALIASES.get(name, name)
    if name not in PRINTED:
        raise click.UsageError(f"{name!r} prints no JSON; these do: {', '.join(PRINTED)}")
    found = schema(PRINTED[name], line=line)
    print_record("json", {"$schema": DIALECT, "title": f"sharedroutes {name}", **found})


def schema(printed: Printed, *, line: bool = False, closed: bool = False) -> dict[str, Any]:
    """Return the schema of a document, or of a line; `closed`: with no fields but those of this release."""
    record = _of(printed.record, closed=closed)
    return {"type": "array", "items": record} if printed.is_list and not line else record


def _of(shape: Any, *, closed: bool) -> dict[str, Any]:
    """Return the schema of a type, of an object whose fields have these types, or of a list of either."""
    if isinstance(shape, list):
        return {"type": "array", "items": _of(shape[0], closed=closed)}
    if isinstance(shape, Mapping):
        return _object(shape, shape.keys(), closed=closed)
    if is_typeddict(shape) or is_dataclass(shape):
        fields = get_type_hints(shape, include_extras=True)
        required = (name for name, kind in fields.items() if get_origin(kind) is not NotRequired)
        return {"description": shape.__doc__, **_object(fields, required, closed=closed)}
    if shape in _PLAIN:
        return {"type": _PLAIN[shape]}
    if isinstance(shape, type) and issubclass(shape, Enum):
        return {"enum": [one.value for one in shape]}
    return _of_generic(get_origin(shape), get_args(shape), closed=closed)


def _of_generic(origin: Any, arguments: tuple[Any, ...], *, closed: bool) -> dict[str, Any]:
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [_of(one, closed=closed) for one in arguments]}
    if origin in (list, tuple):  # all tuples here have any number of items of one type
        return {"type": "array", "items": _of(arguments[0], closed=closed)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], closed=closed)}
    if origin is NotRequired:
        return _of(arguments[0], closed=closed)
    raise TypeError(f"no schema is known for {origin}")


def _object(fields: Mapping[str, Any], required: Iterable[str], *, closed: bool) -> dict[str, Any]:
    found = {
        "type": "object",
        "properties": {name: _of(shape, closed=closed) for name, shape in fields.items()},
        "required": sorted(required),
    }
    return {**found, "additionalProperties": False} if closed else found
