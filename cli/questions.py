"""The questions to the past as commands: the same for the live stream and for the kept history."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import click

from ..daemon.option import nearest
from ..daemon.printing import iso
from ..registry.history import (
    Before,
    BrokerHistory,
    Column,
    Difference,
    Question,
    Row,
    TableAt,
    TopicHistory,
)
from .known_names import broker_names, topic_names
from .root import Group
from .tables import Cell, show, text
from .times import TIME, Moment

Make: TypeAlias = Callable[..., Question]
"""Makes a question of the time now, in ms, and of what the command was given."""

Ask: TypeAlias = Callable[[Make], Callable[..., None]]
"""Makes what a command runs: it asks the question that `make` makes, and prints the answer."""

_MINUTE_MS: Final = 60_000
_MAY_BE_EMPTY: Final = ("by", "user", "replicas", "between")


_Parameter: TypeAlias = Callable[[Any], Any]
"""Gives a command an option or an argument."""

_ASKED: Final = dict[str, tuple[Make, tuple[_Parameter, ...]]]()
"""Of each command what makes its question, and its parameters; the decorator fills it."""


def _asks(name: str, *parameters: _Parameter) -> Callable[[Make], Make]:
    def noted(make: Make) -> Make:
        _ASKED[name] = make, parameters
        return make

    return noted


def _time(*names: str, **more: Any) -> _Parameter:
    return click.option(*names, type=TIME, metavar="TIME", **more)


_SPAN: Final = (
    _time("--since", help="Only what came after it.  [default: all]"),
    _time("--until", help="Only what came until then.  [default: now]"),
)


@_asks("topic", click.argument("topic", shell_complete=topic_names), *_SPAN)
def _of_topic(now_ms: int, topic: str, since: Moment | None, until: Moment | None) -> Question:
    """List what happened to TOPIC: changes of it, and of the brokers that had it at that time."""
    return TopicHistory(topic=topic, **_span(since, until, now_ms))


@_asks("broker", click.argument("broker", shell_complete=broker_names), *_SPAN)
def _of_broker(now_ms: int, broker: str, since: Moment | None, until: Moment | None) -> Question:
    """List what happened to BROKER."""
    return BrokerHistory(broker=broker, **_span(since, until, now_ms))


def _span(since: Moment | None, until: Moment | None, now_ms: int) -> dict[str, int]:
    if since and until:
        _in_order(since, until, now_ms)
    asked = {"since_ms": since, "until_ms": until}
    return {name: moment.ms(now_ms) for name, moment in asked.items() if moment}


def _in_order(earlier: Moment, later: Moment, now_ms: int) -> tuple[int, int]:
    from_ms, to_ms = earlier.ms(now_ms), later.ms(now_ms)
    if from_ms > to_ms:
        raise click.BadParameter(f"{earlier.text!r} is later than {later.text!r}", param_hint=earlier.option)
    return from_ms, to_ms


@_asks(
    "table",
    _time("--at", required=True, help="The moment."),
    click.option(
        "--topic", "topics", multiple=True, shell_complete=topic_names, help="Only this one; may be repeated."
    ),
)
def _table(now_ms: int, at: Moment, topics: tuple[str, ...]) -> Question:
    """Show which brokers had which topics at a TIME, and what they were good for."""
    return TableAt(at_ms=at.ms(now_ms), topics=frozenset(topics))


@_asks(
    "diff",
    _time("--from", "earlier", required=True, help="The earlier moment."),
    _time("--to", "later", default="now", help="The later one.  [default: now]"),
)
def _difference(now_ms: int, earlier: Moment, later: Moment) -> Question:
    """Show what differs between an earlier TIME and a later one."""
    from_ms, to_ms = _in_order(earlier, later, now_ms)
    return Difference(from_ms=from_ms, to_ms=to_ms)


@_asks(
    "before",
    click.argument("at", type=TIME, metavar="TIME"),
    click.option(
        "--minutes",
        type=click.FloatRange(0, min_open=True),
        default=5.0,
        show_default=True,
        help="How long before.",
    ),
)
def _before(now_ms: int, at: Moment, minutes: float) -> Question:
    """List what changed before TIME, with the topics that each change hit, worst first.

    `out`: topics for which no broker takes messages any more; `fewer`: others with fewer brokers that do.
    """
    return Before(at_ms=at.ms(now_ms), window_ms=round(minutes * _MINUTE_MS))


def commands(ask: Ask) -> dict[str, click.Command]:
    """Return the commands `history`, `table`, `diff` and `before`, which ask as `ask` says."""
    made = {name: _command(name, ask) for name in _ASKED}
    history = Group("history", help="List what happened to a topic, or to a broker.", no_args_is_help=True)
    for name in ("topic", "broker"):
        history.add_command(made.pop(name))
    return {"history": history, **made}


def _command(name: str, ask: Ask) -> click.Command:
    make, parameters = _ASKED[name]
    run = functools.wraps(make)(ask(make))
    for parameter in reversed(parameters):
        run = parameter(run)
    return click.command(name)(run)


def named(question: Question) -> tuple[str, frozenset[str]]:
    """Return the names that a question asks for, and whether they are those of a broker or of a topic."""
    if isinstance(question, BrokerHistory):
        return "broker", frozenset({question.broker})
    if isinstance(question, TopicHistory):
        return "topic", frozenset({question.topic})
    return "topic", question.topics if isinstance(question, TableAt) else frozenset()


def not_known(kind: str, name: str, known: Iterable[str]) -> str:
    """Return what to say of a name that nothing is known of."""
    return f"nothing is known of a {kind} {name!r}{nearest(name, sorted(known))}"


def print_answer(output: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Print the rows of an answer."""
    names = [column.name for column in columns]
    found = [dict(zip(names, row, strict=True)) for row in rows]
    if output == "table" and not found:
        click.echo("nothing", err=True)
        return
    left = [name for name in names if name not in _MAY_BE_EMPTY or any(row[name] for row in found)]
    show(output, found, {"time" if name == "ms" else name: _cell(name) for name in left})


def _cell(name: str) -> Cell:
    return lambda row: iso(row[name]) if name == "ms" else text(row[name]) or "-"
