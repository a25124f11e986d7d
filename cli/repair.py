"""`verify` and `rebuild`: find inconsistencies of the registry, and repair them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ..registry import Progress, RouteStore
from ..registry.acl import Role
from ..registry.plans.repair.checks import Difference
from ..registry.store_parts import OnProgress
from .store_options import with_store


@contextmanager
def progress_bar(what: str) -> Iterator[OnProgress | None]:
    """Show progress on standard error: yield what to call with it, None when that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    both = sys.stdout.isatty()  # then lines on standard output must not be printed into the bar
    with Bar(*columns, console=console, transient=True, redirect_stdout=both, redirect_stderr=False) as bar:
        task = bar.add_task(what)

        def show(progress: Progress) -> None:
            bar.update(task, completed=progress.done, total=progress.total)

        yield show


@click.command()
@with_store(Role.ADMIN)
def verify(store: RouteStore, output: str) -> None:
    """Find every difference between the brokers' tables, the routes, the indexes and the design of the keys.

    Runs while brokers register: what they write meanwhile is no difference. With --output json, prints one
    line of JSON for each difference. Exit status 1 when there are differences.
    """
    count = 0
    with progress_bar("verify") as progress:
        for difference in store.admin.verify(progress):
            count += 1
            if output == "json":
                _print_line(_fields(difference))
            else:
                mark = "" if difference.mendable else "; rebuild cannot mend it"
                _say(f"{difference.kind}: {difference}{mark}")
    if output == "table":
        _say(f"{count or 'no'} difference{'' if count == 1 else 's'}")
    sys.exit(1 if count else 0)


@click.command()
@with_store(Role.ADMIN)
def rebuild(store: RouteStore, output: str) -> None:
    """Mend what `verify` finds, from the brokers' own tables, while brokers and clients go on.

    Keys and values that the registry did not write are left, and shown. With --output json, prints one line
    of JSON for each difference. Exit status 1 when something is left.
    """
    mended, left = 0, 0
    with progress_bar("rebuild") as progress:
        for done in store.admin.rebuild(progress):
            mended += done.mended
            left += not done.mended
            if output == "json":
                _print_line({**_fields(done), "mended": done.mended, "why": done.left})
            elif done.mended:
                _say(f"mended {done.kind}: {done}")
            else:
                _say(f"left {done.kind}: {done} ({done.left})")
    if output == "table":
        _say(f"{mended} mended, {left} left")
    sys.exit(1 if left else 0)


def _say(text: str) -> None:
    # Left to itself, echo looks for the stream under the one that keeps lines and progress apart.
    click.echo(text, file=sys.stdout)


def _print_line(value: Any) -> None:
    _say(orjson.dumps(value).decode())


def _fields(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "key": difference.key,
        "text": difference.text,
        "mendable": difference.mendable,
        "brokerName": difference.broker_name,
        "brokerId": difference.broker_id,
        "topic": difference.topic,
    }
