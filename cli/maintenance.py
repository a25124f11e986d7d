"""`health`, `verify`, `rebuild`, `export` and `import`: an operator looks after a whole registry."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ..daemon.printing import Record, Records, print_record, wrapped
from ..registry import InvalidInput, Progress, RouteStore
from ..registry.acl import Role
from ..registry.health.findings import HealthReport, Severity
from ..registry.plans.export_import import ImportSummary
from ..registry.plans.repair.differences import Difference
from ..registry.store_parts import OnProgress
from ..registry.wording import counted
from .store_options import with_store
from .tables import print_table

_STANDARD: Final = "-"
_STATUS: Final = {Severity.OK: 0, Severity.INFO: 0, Severity.WARNING: 3, Severity.ERROR: 4}
_UNKNOWN: Final = "unknown"
_MIB: Final = 2**20


@click.command()
@with_store(Role.ADMIN)
def health(store: RouteStore, output: str) -> None:
    """Report on the registry and on the server that keeps it: what was found, and what to do about it.

    What the user has no permission to look at is named as unknown; the role `admin` may look at everything.

    Exit status 0 when nothing has to be done, 3 with warnings, 4 with errors; 1 when the store cannot be
    asked, and 2 for wrong usage, as with every command.
    """
    report = store.health()
    if output != "table":
        print_record(output, {"severity": report.severity, **asdict(report)})
    else:
        facts = list(_facts(report))
        width = max(len(fact) for fact, _ in facts)
        for fact, value in facts:
            click.echo(wrapped(f"{fact:<{width}}  {value}", hanging=width + 2))
        for line in _findings(report):
            click.echo(line)
    sys.exit(_STATUS[report.severity])


def _facts(report: HealthReport) -> Iterator[tuple[str, str]]:
    server, registry = report.server, report.registry
    yield "server", f"{_text(server['kind'])} {_text(server['version'])}"
    yield "mode, role", f"{_text(server['mode'])}, {_text(server['role'])}"
    yield "replicas", _text(server["replicas"])
    yield "persistence", _text(server["persistence"])
    yield (
        "memory of the server",
        f"{_mib(server['used_bytes'])} of {_mib(server['max_bytes'] or None, 'no limit')}",
    )
    yield "eviction", _text(server["eviction_policy"])
    yield "keyspace events", _text(server["notifications"], empty="off")
    yield "registry", f"{report.namespace}, schema {_text(registry['schema'])}"
    yield "brokers, topics", f"{_text(registry['brokers'])}, {_text(registry['topics'])}"
    yield "key-value namespaces", _text(registry["namespaces"])
    yield (
        "leases",
        f"{_text(registry['live_leases'])} live, {_text(registry['due_leases'])} ended, unannounced",
    )
    yield "sweep", _text(registry["sweeper"], empty="nobody")
    yield "feed", f"{_text(registry['feed_entries'])} changes, of the last {_seconds(registry['feed_age_s'])}"
    for kind, size in registry["memory_bytes"].items():
        yield f"memory: {kind}", _mib(size)


def _findings(report: HealthReport) -> Iterator[str]:
    """Yield two lines for each finding that is not good: what was found, and what to do."""
    fine = [finding.what for finding in report.findings if finding.severity is Severity.OK]
    for finding in report.findings:
        if finding.severity is not Severity.OK:
            yield ""
            yield wrapped(f"{finding.severity.upper()} {finding.what}: {finding.text}", hanging=2)
            yield f"  {finding.advice}"  # not broken: there may be a command in it
    yield ""
    yield wrapped(f"OK {', '.join(fine)}", hanging=3)


def _text(value: object, empty: str = "none") -> str:
    return _UNKNOWN if value is None else str(value) or empty


def _mib(size: int | None, none: str = _UNKNOWN) -> str:
    return none if size is None else f"{size / _MIB:.1f} MiB"


def _seconds(age_s: float | None) -> str:
    return _UNKNOWN if age_s is None else f"{age_s:.0f} s"


@contextmanager
def _progress_bar(what: str) -> Iterator[OnProgress | None]:
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

    Runs while brokers register: what they write meanwhile is no difference. Exit status 1 when there are
    differences.
    """
    count = 0
    with Records(output) as records, _progress_bar("verify") as progress:
        for found in store.admin.verify(progress):
            count += 1
            mark = "" if found.mendable else "; rebuild cannot mend it"
            _print(output, records, f"{found.kind}: {found}{mark}", _fields(found))
    if output == "table":
        click.echo(counted(count, "difference") if count else "no differences")
    sys.exit(1 if count else 0)


@click.command()
@with_store(Role.ADMIN)
def rebuild(store: RouteStore, output: str) -> None:
    """Mend what `verify` finds, from the brokers' own tables, while brokers and clients go on.

    Keys and values that the registry did not write are left, and shown. Exit status 1 when something is left.
    """
    mended, left = 0, 0
    with Records(output) as records, _progress_bar("rebuild") as progress:
        for done in store.admin.rebuild(progress):
            mended += done.mended
            left += not done.mended
            text = f"mended {done.kind}: {done}" if done.mended else f"left {done.kind}: {done} ({done.left})"
            _print(output, records, text, {**_fields(done), "mended": done.mended, "why": done.left})
    if output == "table":
        click.echo(f"{mended} mended, {left} left")
    sys.exit(1 if left else 0)


def _print(output: str, records: Records, text: str, record: Record) -> None:
    """Print a difference for people, or for programs, above the progress bar."""
    if output == "table":
        click.echo(text, file=sys.stdout)  # which echo, left to itself, would go round
    else:
        records.add(record)


def _fields(difference: Difference) -> Record:
    return {
        "kind": difference.kind,
        "key": difference.key,
        "text": difference.text,
        "mendable": difference.mendable,
        "brokerName": difference.broker_name,
        "brokerId": difference.broker_id,
        "topic": difference.topic,
    }


@click.command()
@click.argument("file", default=_STANDARD, metavar="[FILE]")
@with_store(Role.READER, prints=False)
def export(store: RouteStore, file: str) -> None:
    """Write the whole registry to FILE, or to standard output, as lines of JSON.

    FILE appears when it is complete. Leases are not exported: live brokers renew their own.
    """
    with _progress_bar("export") as progress:
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
    with _lines(file) as lines, _progress_bar("import") as progress:
        try:
            summary = store.admin.import_(
                lines, replace_live=replace_live, dry_run=dry_run, progress=progress
            )
        except InvalidInput as error:
            raise click.ClickException(f"{file}: {error}; nothing was written") from error
    _show_import(summary, output)
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


def _show_import(summary: ImportSummary, output: str) -> None:
    kinds = {kind: asdict(getattr(summary, kind)) for kind in ("brokers", "topics", "kv")}
    refused = [(str(one.line), one.what, one.reason) for one in summary.refused]
    problems = [dict(zip(("line", "what", "reason"), one, strict=True)) for one in refused]
    if output != "table":
        print_record(output, {**kinds, "notImported": problems})
        return
    rows = ((kind, *map(str, counts.values())) for kind, counts in kinds.items())
    print_table(("", "written", "unchanged", "refused"), rows)
    if refused:
        click.echo()
        print_table(("line", "not imported", "why"), refused)
