"""Reads an agent.toml: which tables and keys it has; what the values may be is for the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..option import Section, of, type_of


class Table(NamedTuple):
    """One table, and what stands before its keys in messages."""

    place: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AgentToml:
    """What one file says; relative paths in it are relative to its folder."""

    folder: Path
    sections: Mapping[Section, Table]
    brokers: tuple[Table, ...] | None = ()
    """None = nobody can tell: the file, or this part of it, is none."""

    problems: tuple[str, ...] = ()


NO_FILE: Final = AgentToml(Path(), {section: Table("", {}) for section in Section})


def read(path: Path) -> AgentToml:
    """Return what the file says, with its problems: each names the file, and the key or the line."""
    problems: list[str] = []
    root = _root(path, problems)
    if root is None:
        return replace(NO_FILE, folder=path.parent, brokers=None, problems=tuple(problems))
    _refuse_unknown(Table(f"{path}: ", root), Section, "a table of agent.toml", problems)
    sections = {
        section: _table(f"{path}: {section}", section, root.get(section, {}), problems)
        for section in (Section.STORE, Section.AGENT)
    }
    brokers = _brokers(path, root.get(Section.BROKER, []), problems)
    return AgentToml(path.parent, sections, brokers, tuple(problems))


def _brokers(path: Path, tables: object, problems: list[str]) -> tuple[Table, ...] | None:
    if not isinstance(tables, list):
        problems.append(f"{path}: broker: write [[broker]] instead of [broker]: there may be several")
        return None
    return tuple(
        _table(f"{path}: broker[{number}]", Section.BROKER, values, problems)
        for number, values in enumerate(tables, 1)
    )


def _root(path: Path, problems: list[str]) -> dict[str, Any] | None:
    import tomllib  # noqa: PLC0415 - an agent whose settings are flags and variables has no use for it

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        problems.append(f"{path}: is no UTF-8: {error.reason} at byte {error.start}")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{path}: is no TOML: {error}")
    return None


def _table(place: str, section: Section, values: object, problems: list[str]) -> Table:
    if not isinstance(values, dict):
        problems.append(f"{place}: expected a table, got {type_of(values)}")
        return Table(f"{place}.", {})
    table = Table(f"{place}.", values)
    _refuse_unknown(table, of(section), f"a setting of [{section}]", problems)
    return table


def _refuse_unknown(table: Table, known: Iterable[str], what: str, problems: list[str]) -> None:
    names = [str(name) for name in known]
    unknown = [key for key in table.values if key not in names]
    problems += [f"{table.place}{key}: is not {what}{_hint(key, names)}" for key in unknown]


def _hint(key: str, names: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it, and it stays in memory

    nearest = get_close_matches(key, names, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else f": they are {', '.join(names)}"
