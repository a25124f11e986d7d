"""`history`, `table`, `diff` and `before`, of the live stream: the past as far as the stream reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from ..daemon.printing import iso
from ..registry import Change, HistoryBounds, Lookup, RouteStore
from ..registry.acl import Role
from ..registry.history import Before, BrokerHistory, Question, TableAt, TopicHistory
from ..registry.past import BrokerNow, brokers_now, brokers_of, place_of
from ..registry.plans import ORIGIN, ErrorReply, server_time, whole_table
from .questions import Make, commands, named, not_known, print_answer
from .store_options import with_store

_PAGE: Final = 10_000


class _Told(NamedTuple):
    changes: list[Change]
    corrupt: int


def _ask(make: Make) -> Callable[..., None]:
    @with_store(Role.READER)
    def run(store: RouteStore, output: str, /, **given: Any) -> None:
        question = make(_clock_ms(store), **given)
        bounds = store.history_bounds()
        gap, is_trimmed = _gap(question, bounds), _is_trimmed(bounds)
        if gap and is_trimmed and not _is_cut(question, bounds):
            raise click.ClickException(gap)
        told = _changes(store)
        if told.corrupt:
            click.echo(f"{told.corrupt} entries of the stream cannot be read: left out", err=True)
        now = brokers_now(_table(store, question, told.changes))
        unknown = [*_unknown(question, told.changes, now)]
        rows = [*question.rows(told.changes, now)]
        if rows or not unknown or output != "table":
            print_answer(output, question.columns, rows)
        if unknown and not gap and is_trimmed:
            gap = f"the change stream reaches back to {iso(place_of(bounds.first_id)[0])}, and no further"
        if unknown:
            raise click.ClickException("\n".join(filter(None, (*unknown, gap))))
        if gap:
            click.echo(gap, err=True)

    return run


def _clock_ms(store: RouteStore) -> int:
    """Return the store's clock: what is asked for is compared with ids that it has given."""
    now_us = store.run(server_time())
    if isinstance(now_us, ErrorReply):
        raise click.ClickException(f"the store does not tell its time: {now_us.message}")
    return now_us // 1_000


def _changes(store: RouteStore) -> _Told:
    """Return all that the stream holds; it is read anew when it is trimmed meanwhile."""
    while True:
        changes, corrupt, position = list[Change](), 0, ORIGIN
        while True:
            page = store.changes_since(position, _PAGE)
            if page.lost:
                break
            changes += page.changes
            corrupt += len(page.corrupt)
            position = page.position
            if page.complete:
                return _Told(changes, corrupt)


def _table(store: RouteStore, question: Question, changes: list[Change]) -> Lookup:
    """Return what the registry holds now: of the topics that are asked for, if some are, else of all."""
    topics = {question.topic} if isinstance(question, TopicHistory) else set[str]()
    if isinstance(question, TableAt):
        topics |= question.topics
    if not topics:
        return store.run(whole_table(store.keys))
    of = {name for change in changes for name in brokers_of(change)}
    return store.lookup(sorted(topics), anew=sorted(of))


def _unknown(question: Question, changes: Sequence[Change], now: Mapping[str, BrokerNow]) -> Iterator[str]:
    """Yield what to say of each name that is asked for, no change tells of, and nobody has now."""
    kind, asked = named(question)
    if kind == "broker":
        known = {name for change in changes for name in brokers_of(change)} | now.keys()
    else:
        told = (topic for one in changes for topic in (*one.added, *one.changed, *one.removed))
        known = {*told, *(topic for broker in now.values() for topic in broker.topics)}
    for name in sorted(asked - known):
        yield not_known(kind, name, known)


def _gap(question: Question, bounds: HistoryBounds) -> str | None:
    """Return what to say where the stream begins after what is asked for; None = it does not."""
    from_ms, _ = question.span
    first_ms, _ = place_of(bounds.first_id)
    if from_ms is None or first_ms <= from_ms:
        return None
    if _is_trimmed(bounds):
        return (
            f"the change stream reaches back to {iso(first_ms)}, and no further: what was before, at "
            f"{iso(from_ms)}, is known to `sharedroutes pipeline ask` where `pipeline ingest` has kept it"
        )
    return (
        f"the change stream begins at {iso(first_ms)}: the registry did, or its store was emptied then, and "
        "what was before is not known"
    )


def _is_cut(question: Question, bounds: HistoryBounds) -> bool:
    """Whether it is about a time of which the stream holds the end: that is told, and from when on."""
    _, to_ms = question.span
    is_window = isinstance(question, TopicHistory | BrokerHistory | Before)
    return is_window and (to_ms is None or to_ms >= place_of(bounds.first_id)[0])


def _is_trimmed(bounds: HistoryBounds) -> bool:
    """Whether the stream has held more than it does."""
    return bounds.written != bounds.entries


_COMMANDS: Final = commands(_ask)
history, table, diff, before = _COMMANDS.values()
