"""`changes`: the registry's change stream, listed or followed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias

import click
import orjson

from ..daemon.printing import Record, Records, iso, shown, terminal_columns, wrapped
from ..registry import Change, ChangeKind, ChangePage, Reset, RouteStore, StoreUnavailable
from ..registry.acl import Role
from ..registry.codec import encode_change
from ..registry.past import MOST_NAMES, ms_of, place_of, told
from ..registry.plans import ORIGIN
from .store_options import with_store

_PAGE: Final = 1_000
_RETRY_S: Final = 0.5
_IDLE_S: Final = 0.2
_KIND: Final = max(map(len, ChangeKind))
_MISSING: Final = "changes are missing: the stream does not reach so far back"

_Show: TypeAlias = Callable[[Change], None]


@click.command()
@click.option(
    "--after", "position", default=ORIGIN, show_default=True, help="The id of the last change known."
)
@click.option(
    "--follow", "-f", is_flag=True, help="Go on, through all trouble of the store, until interrupted."
)
@with_store(Role.READER)
def changes(store: RouteStore, output: str, position: str, *, follow: bool) -> None:
    """List the changes of the registry, one a line, as far back as its change stream goes.

    Times are local, by the store's clock. A terminal is shown 20 topics of a change; pipes and JSON have all.
    --follow prints no JSON document, which would have no end: use `--output ndjson`.
    Exit status 1 when changes after the given id have been trimmed from the stream: the others are listed.
    """
    if follow and output == "json":
        raise click.UsageError("--follow has no end, and a JSON document has one: use --output ndjson")
    if output == "table":
        click.echo(click.style(_line("id", "time", "change", "of what"), bold=True))
    lost = False
    with Records(output) as records:
        show = _print_row if output == "table" else lambda change: records.add(_record(change))
        while True:
            page = _awaited(store, position) if follow else store.changes_since(position, _PAGE)
            lost = lost or page.lost
            _print_page(page, show)
            position = page.position
            if page.complete and not page.lost:
                break
        if lost and follow:
            click.echo(_MISSING, err=True)
        if follow:
            _follow(store, position, show)
    if lost:
        raise click.ClickException(_MISSING)


def _awaited(store: RouteStore, position: str) -> ChangePage:
    """Return a page as soon as the store can be reached; print once that it cannot."""
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


def _follow(store: RouteStore, position: str, show: _Show) -> None:
    """Print every change after a position; the registry's log says when the store goes away."""
    is_away = False
    with store.follow(position, table=False, idle_s=_IDLE_S) as items:
        for item in items:
            if isinstance(item, Change):
                show(item)
                position = item.change_id
            elif isinstance(item, Reset):
                _print_until(store, position, item.position, show)
                position = item.position
            was_away, is_away = is_away, items.health().last_error is not None
            if was_away and not is_away:
                click.echo("the store answers again", err=True)


def _print_until(store: RouteStore, position: str, until: str, show: _Show) -> None:
    """Print the changes that a follower skipped at a Reset, up to the one that it continues from."""
    page = _awaited(store, position)
    if page.lost:
        click.echo(f"changes after {position} are missing", err=True)
        page = _awaited(store, ORIGIN)
    while True:
        if not _print_page(page, show, until) or page.complete or page.lost:
            return
        page = _awaited(store, page.position)


def _print_page(page: ChangePage, show: _Show, until: str | None = None) -> bool:
    """Print the changes of a page up to an id; return whether there was none after it."""
    for error in page.corrupt:
        click.echo(f"cannot be read: {error}", err=True)
    for change in page.changes:
        if until is not None and place_of(change.change_id) > place_of(until):
            return False
        show(change)
    return True


def _record(change: Change) -> Record:
    return {"changeId": change.change_id, **orjson.loads(encode_change(change))}


def _print_row(change: Change) -> None:
    when = iso(ms_of(change))
    most = None if terminal_columns() is None else MOST_NAMES
    subject, details = shown(subject_of(change)), shown(details_of(change, most))
    head = _line(change.change_id, when, change.kind, subject)
    room = terminal_columns()
    if room is None or len(head) + len(details) + 2 <= room:
        click.echo(f"{head}  {details}".rstrip())
        return
    if len(head) > room:
        head = f"{_line(change.change_id, when, change.kind, '').rstrip()}\n  {subject}"
    click.echo(head)
    if details:
        click.echo(wrapped(details, indent=2, hanging=4))


def _line(change_id: str, when: str, kind: str, subject: str) -> str:
    return f"{change_id:<15}  {when:<29}  {kind:<{_KIND}}  {subject}"


def subject_of(change: Change) -> str:
    """Return what a change is about, in a word or two."""
    if change.kind is ChangeKind.KV:
        return f"{change.namespace}/{change.key}"
    if change.kind is ChangeKind.DELETED:
        return " ".join(change.removed)
    if change.kind is ChangeKind.SETTINGS:
        return "-"
    return f"{change.broker_name}:{change.broker_id}"


def details_of(change: Change, most: int | None = MOST_NAMES) -> str:
    """Return what a change says, with at most so many names of topics, and who made it."""
    by = f"by {change.by}" if change.by else ""
    user = f"as {change.user}" if change.user else ""
    return "; ".join(filter(None, (_what(change, most), " ".join(filter(None, (by, user))))))


def _what(change: Change, most: int | None) -> str:
    if change.kind is ChangeKind.DELETED:
        return f"from {' '.join(change.brokers)}"
    if change.kind is ChangeKind.KV:
        return change.reason
    return told(change, most)
