"""The command `doctor`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from ...daemon.printing import print_records, wrapped
from ...registry import RouteStore
from ...registry.acl import Role
from ...registry.connection.url import parse_url
from ..main import PLUGIN_UNKNOWN
from ..processes import Place
from ..store_options import with_store
from .finding import Finding, Level
from .gather import gather
from .process_checks import check_processes
from .registry_checks import check_registry
from .snapshot import ProcessKind, Snapshot
from .store_checks import check_store

_STYLES: Final = {Level.ERROR: "red", Level.WARNING: "yellow"}


class _WrongUsage(click.UsageError):
    exit_code = PLUGIN_UNKNOWN


class _NothingFound(click.ClickException):
    exit_code = PLUGIN_UNKNOWN


class _Plugin(click.Command):
    """Ends with 3 for wrong usage: 2 would tell a monitoring of an error in the registry."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*args, **more)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), error.ctx) from error
        except click.ClickException as error:
            raise _NothingFound(error.format_message()) from error


@click.command(cls=_Plugin)
@click.option("--agent", "agents", multiple=True, metavar="HOST:PORT", help="An agent's --http; repeatable.")
@click.option("--front", "fronts", multiple=True, metavar="HOST:PORT", help="A front's --http; repeatable.")
@click.option("--quick", is_flag=True, help="Do not read the whole registry.")
@with_store(Role.ADMIN)
def doctor(
    store: RouteStore, output: str, agents: tuple[str, ...], fronts: tuple[str, ...], *, quick: bool
) -> None:
    """Look at the store, the registry, agents and fronts: say what is wrong, why it matters, what to do.

    Agents and fronts are those that are named here or in the profile; without any, those on this host at
    their usual ports, if they are there. The registry knows no addresses of them; whose agents, and how many
    fronts, were not looked at is said. The role `admin` may look at everything but users (ACL GETUSER);
    what could not be looked at is said. Nothing is written. Without --quick the whole registry is read, page
    by page: --quick leaves out verify, times and reasons, and topics without a broker.

    Exit status as of a monitoring plugin: 0 = all is well, 1 = warnings, 2 = errors, 3 = wrong usage, or
    an extra is missing. The first line sums up.
    """
    named = [
        (kind, str(Place.of(address, f"--{kind}")))  # in one form: the usual address is not asked twice
        for kind, addresses in ((ProcessKind.AGENT, agents), (ProcessKind.FRONT, fronts))
        for address in addresses
    ]
    url = click.get_current_context().params["redis_url"]
    found = findings(gather(store, parse_url(url), named, quick=quick))
    print_records(output, map(asdict, found), _report(found))
    sys.exit(found[0].level.status)


def findings(snapshot: Snapshot) -> list[Finding]:
    """Return what is to be said of everything that was gathered, the worst first."""
    every = [*check_store(snapshot), *check_registry(snapshot), *check_processes(snapshot)]
    return sorted(every, key=lambda finding: -finding.level.status)


def _report(found: Sequence[Finding]) -> Iterator[str]:
    """Yield a line that sums up, with figures as monitoring reads them, and what is not good."""
    count = Counter(finding.level for finding in found)
    bad = [finding for finding in found if finding.level.status]
    worst = dict.fromkeys(finding.check for finding in bad)
    figures = f"errors={count[Level.ERROR]} warnings={count[Level.WARNING]} checks={len(found)}"
    yield f"{(bad[0].level if bad else Level.OK).upper()}: {', '.join(worst) or 'all is well'} | {figures}"
    for finding in bad:
        yield ""
        mark = click.style(finding.level.upper(), fg=_STYLES[finding.level], bold=True)
        yield wrapped(f"{mark} {finding.check}: {finding.what}", hanging=2)
        yield wrapped(f"why: {finding.why}", indent=2, hanging=7)
        yield f"  do:  {finding.advice}"  # not broken: there may be a command in it
    yield ""
    fine = dict.fromkeys(finding.check for finding in found if finding.level is Level.OK)
    if fine:
        yield wrapped(f"OK {', '.join(fine)}", hanging=3)
    for finding in found:
        if finding.level is Level.SKIPPED:
            yield wrapped(f"{finding.check} {finding.what}", hanging=2)
