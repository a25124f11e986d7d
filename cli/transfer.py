"""`export` and `import`: a whole registry as a file."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from ..registry import InvalidInput, RouteStore
from ..registry.acl import Role
from ..registry.plans.export_import import Counts, ImportSummary
from .output import print_json, print_table
from .repair import progress_bar
from .store_options import with_store

_STANDARD: Final = "-"


@click.command()
@click.argument("file", default=_STANDARD, metavar="[FILE]")
@with_store(Role.READER)
def export(store: RouteStore, output: str, file: str) -> None:  # noqa: ARG001 - all commands have it
    """Write the whole registry to FILE, or to standard output, as lines of JSON.

    FILE appears when it is complete. Leases are not exported: live brokers renew their own.
    """
    with progress_bar("export") as progress:
        lines = store.admin.export(progress)
        if file == _STANDARD:
            for line in lines:
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            return
        _write(Path(file), lines)


def _write(path: Path, lines: Iterator[bytes]) -> None:
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as part:
            try:
                part.writelines(lines)
            except BaseException:
                Path(part.name).unlink()
                raise
        Path(part.name).replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


@click.command("import")
@click.argument("file", metavar="FILE|-")
@click.option(
    "--replace-live", is_flag=True, help="Also the tables of live brokers; their owners are fenced."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
@with_store(Role.FRONT)
def import_(store: RouteStore, output: str, file: str, *, replace_live: bool, dry_run: bool) -> None:
    """Import the brokers' tables and the key-value pairs of FILE, or of standard input.

    The whole file is checked before anything is written. A broker becomes visible when its agent registers
    it, which writes only the difference. Exit status 1 when something was not imported.
    """
    with _lines(file) as lines, progress_bar("import") as progress:
        try:
            summary = store.admin.import_(
                lines, replace_live=replace_live, dry_run=dry_run, progress=progress
            )
        except InvalidInput as error:
            raise click.ClickException(f"{file}: {error}; nothing was written") from error
    _show(summary, output)
    if summary.refused:
        sys.exit(1)


class _File:
    """The lines of a file, which can be iterated again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as lines:
            yield from lines


@contextmanager
def _lines(file: str) -> Iterator[_File]:
    """Yield the lines of a file; standard input is copied into a temporary one."""
    if file != _STANDARD:
        path = Path(file)
        if not path.is_file():
            raise click.ClickException(f"{file}: there is no such file")
        yield _File(path)
        return
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield _File(Path(copy.name))


def _show(summary: ImportSummary, output: str) -> None:
    kinds = {"brokers": summary.brokers, "topics": summary.topics, "kv": summary.kv}
    refused = [(str(one.line), one.what, one.reason) for one in summary.refused]
    if output == "json":
        counts = {kind: _counts(found) for kind, found in kinds.items()}
        problems = [dict(zip(("line", "what", "reason"), one, strict=True)) for one in refused]
        print_json({**counts, "notImported": problems})
        return
    rows = ((kind, *(str(number) for number in _counts(found).values())) for kind, found in kinds.items())
    print_table(("", "written", "unchanged", "refused"), rows)
    if refused:
        click.echo()
        print_table(("line", "not imported", "why"), refused)


def _counts(counts: Counts) -> dict[str, int]:
    return {"written": counts.written, "unchanged": counts.unchanged, "refused": counts.refused}
