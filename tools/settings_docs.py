"""Writes the tables of settings of agents, fronts and clients, as the code declares them.

`python -m tools.settings_docs` rewrites the pages; `--check` shows how they would change, and ends with 1.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from griffe import Class, GriffeLoader

from sharedroutes.broker_agent.settings.sidecar_config import OPTIONS as OF_AGENT
from sharedroutes.daemon.option import Kind, Option
from sharedroutes.nameserver.process_config import OPTIONS as OF_FRONT
from sharedroutes.nameserver.settings import property_of
from tools.pages import DOCS, ROOT, table, with_table, write

AGENT: Final = DOCS / "agent" / "settings.md"
FRONT: Final = DOCS / "nameserver" / "settings.md"
CLIENT: Final = DOCS / "client" / "settings.md"

OF_CLIENT: Final = (
    "client.config.ClientConfig",
    "client.faults.config.FaultConfig",
    "client.faults.config.Ladder",
    "client.brokers.HintConfig",
    "client.attempts.policy.RetryPolicy",
    "registry.config.RegistryConfig",
    "client.selection.allocation.AllocateConsistentHash",
)
_SECTIONS: Final = {
    "`[store]`": ("store", False),
    "`[agent]`": ("agent", False),
    "`[agent]`, or each `[[broker]]`": ("agent", True),
    "`[[broker]]`": ("broker", False),
}
_FACTORY: Final = re.compile(r"field\(default_factory=(\w+)\)")
_COSTS: Final = "what it does, and what it costs"


def of_agent(text: str) -> str:
    """Return the page of the agent's settings with its tables as they are declared."""
    for heading, (section, each_broker) in _SECTIONS.items():
        rows = [
            _row_of_agent(one) for one in OF_AGENT if (one.section, one.each_broker) == (section, each_broker)
        ]
        text = with_table(text, heading, table(("key", "flag", "default", "values", _COSTS), rows))
    return text


def _row_of_agent(option: Option) -> list[str]:
    flag = f"none: `{option.variable}` alone" if option.kind is Kind.SECRET else f"`{option.flag}`"
    default = "" if option.default in (None, "", {}) else f"`{json.dumps(option.default)}`"
    return [f"`{option.key}`", flag, default, _values_of(option, option.kind.value), f"{option.meaning}."]


def of_front(text: str) -> str:
    """Return the page of a front's settings with its table as it is declared."""
    head = ("flag", "in the file", "default", "values", "meaning")
    return with_table(text, "Settings of a front", table(head, map(_row_of_front, OF_FRONT)))


def _row_of_front(option: Option) -> list[str]:
    default = option.default
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, float):
        default = f"{default:g}"
    written = "" if default in (None, "") else f"`{default}`"
    values = _values_of(option, option.metavar)
    return [f"`{option.flag}`", f"`{property_of(option)}`", written, values, f"{option.meaning}."]


def _values_of(option: Option, of_kind: str) -> str:
    """Return what values a setting may have."""
    if option.kind is Kind.SECONDS:
        return f"s, from {option.low:g}"
    if option.kind is Kind.COUNT:
        return f"{option.low:g} to {option.high:,} {option.unit}"
    if option.kind is Kind.SWITCH:
        return "`true`, `false`"
    return ", ".join(f"`{one}`" for one in option.choices) or of_kind.replace("|", ", ")


def of_client(text: str) -> str:
    """Return the page of the client's settings with its tables as their classes have them."""
    root = GriffeLoader(search_paths=[ROOT / "src"]).load("sharedroutes")
    for path in OF_CLIENT:
        kind = root[path]
        text = with_table(text, f"`{kind.name}`", table(("setting", "default", _COSTS), _fields(kind)))
    return text


def _fields(kind: Class) -> Iterator[list[str]]:
    for field in kind.attributes.values():
        if "instance-attribute" in field.labels and not field.name.startswith("_"):
            if field.docstring is None:
                raise ValueError(f"{field.path} does not say what it does")
            default = _FACTORY.sub(r"\1()", str(field.value)).replace("'", '"')
            yield [f"`{field.name}`", f"`{default}`", " ".join(field.docstring.value.split())]


def written() -> dict[Path, str]:
    """Return each page with its tables as the code has them."""
    makers = {AGENT: of_agent, FRONT: of_front, CLIENT: of_client}
    return {page: of(page.read_text(encoding="utf-8")) for page, of in makers.items()}


if __name__ == "__main__":
    sys.exit(write(written()))
