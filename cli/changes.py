"""`changes`: what happened to the registry, and what happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import click
import orjson

from ..registry import Change, ChangeKind, ChangePage, Reset, Role, RouteStore, StoreUnavailable
from ..registry.codec import encode_change
from ..registry.plans import ORIGIN
from .on_store import with_store
from .printing import shown, terminal_columns, wrapped
from .times import iso, ms_of

_PAGE: Final = 1_000
_RETRY_S: Final = 0.5
_IDLE_S: Final = 0.2
_MOST_NAMES: Final = 20
"""Topics that a terminal is shown of one change; elsewhere all are."""

_KIND: Final = max(map(len, ChangeKind))


@click.command()
@click.option(
    "--after", "position", default=ORIGIN, show_default=True, help="The id of the last change known."
)
@click.option(
    "--follow", "-f", is_flag=True, help="Go on, through all trouble of the store, until interrupted."
)
@with_store(Role.READER)
def changes(store: RouteStore, output: str, position: str, *, follow: bool) -> None:
    """List what happened to the registry, as far back as its change stream goes: a line a change.

    The time is local, by the store's clock. Exit status 1 when the changes after the given id are not all
    there any more: those that are, are listed.
    """
    if output == "table":
        click.echo(click.style(_line("id", "time", "change", "of what"), bold=True))
    lost = False
    while True:
        page = _awaited(store, position) if follow else store.changes_since(position, _PAGE)
        lost = lost or page.lost
        for error in page.corrupt:
            click.echo(f"cannot be read: {error}", err=True)
        for change in page.changes:
            _print_change(change, output)
        position = page.position
        if page.complete and not page.lost:
            break
    if lost:
        problem = "changes are missing: the stream does not reach so far back"
        if not follow:
            raise click.ClickException(problem)
        click.echo(problem, err=True)
    if follow:
        _follow(store, position, output)


def _awaited(store: RouteStore, position: str) -> ChangePage:
    """Return a page, as soon as the store can be reached; that it cannot is said once."""
    is_away = False
    while True:
        try:
            page = store.changes_since(position, _PAGE)
        except StoreUnavailable as error:
            if not is_away:
                click.echo(f"{error}; waiting for it", err=True)
            is_away = True
            time.sleep(_RETRY_S)
        else:
            if is_away:
                click.echo("the store answers", err=True)
            return page


def _follow(store: RouteStore, position: str, output: str) -> None:
    """Print what happens after a position; the registry's log says when the store goes away."""
    is_away = False
    with store.follow(position, table=False, idle_s=_IDLE_S) as items:
        for item in items:
            if isinstance(item, Change):
                _print_change(item, output)
                position = item.change_id
            elif isinstance(item, Reset):
                _print_until(store, position, item.position, output)
                position = item.position
            was_away, is_away = is_away, items.health().last_error is not None
            if was_away and not is_away:
                click.echo("the store answers again", err=True)


def _print_until(store: RouteStore, position: str, until: str, output: str) -> None:
    """Print the changes that a follower has passed over: those in an empty stream, or after a loss."""
    page = _awaited(store, position)
    if page.lost:
        click.echo(f"changes after {position} are missing", err=True)
        page = _awaited(store, ORIGIN)
    while True:
        for error in page.corrupt:
            click.echo(f"cannot be read: {error}", err=True)
        for change in page.changes:
            if _order(change.change_id) > _order(until):
                return
            _print_change(change, output)
        if page.complete or page.lost:
            return
        page = _awaited(store, page.position)


def _order(change_id: str) -> tuple[int, ...]:
    return tuple(map(int, change_id.split("-")))


def _print_change(change: Change, output: str) -> None:
    if output == "json":
        record = {"changeId": change.change_id, **orjson.loads(encode_change(change))}
        click.echo(orjson.dumps(record))
        return
    head = _line(change.change_id, iso(ms_of(change.change_id)), change.kind, shown(_subject(change)))
    what = shown(_what(change))
    room = terminal_columns()
    if room is None or len(head) + len(what) + 2 <= room:
        click.echo(f"{head}  {what}".rstrip())
        return
    if len(head) > room:
        head = _line(change.change_id, iso(ms_of(change.change_id)), change.kind, "").rstrip()
        head += f"\n  {shown(_subject(change))}"
    click.echo(head)
    if what:
        click.echo(wrapped(what, indent=2, hanging=4))


def _line(change_id: str, when: str, kind: str, what: str) -> str:
    return f"{change_id:<15}  {when:<29}  {kind:<{_KIND}}  {what}"


def _subject(change: Change) -> str:
    if change.kind is ChangeKind.KV:
        return f"{change.namespace}/{change.key}"
    if change.kind is ChangeKind.DELETED:
        return " ".join(change.removed)
    return f"{change.broker_name}:{change.broker_id}"


def _what(change: Change) -> str:
    if change.kind is ChangeKind.TOPICS:
        return "; ".join(_topics(change))
    if change.kind is ChangeKind.DELETED:
        return f"from {' '.join(change.brokers)}"
    return change.address or change.reason


def _topics(change: Change) -> Iterator[str]:
    counts = {"added": change.added, "changed": change.changed, "removed": change.removed}
    most = None if terminal_columns() is None else _MOST_NAMES
    for what, names in counts.items():
        if names:
            left = len(names) - len(names[:most])
            more = f" and {left} more (--output json names all)" if left else ""
            yield f"{what} {len(names)}: {' '.join(sorted(names)[:most])}{more}"
