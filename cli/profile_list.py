"""`profiles`: the named registries."""

from __future__ import annotations

import os

import click

from ..daemon.option import masked
from ..daemon.printing import output_option
from . import records
from .profiles import BadProfile, Profile, load, profiles_file
from .tables import show


@click.command("profiles")
@output_option
def profiles(output: str) -> None:
    """List the profiles of ~/.config/sharedroutes/profiles.toml; the default one is marked with `*`."""
    try:
        found = load(profiles_file(os.environ))
    except BadProfile as error:
        raise click.ClickException(str(error)) from error
    listed = [_entry(name, profile, found.default) for name, profile in sorted(found.named.items())]
    columns = ("", "profile", "redis", "namespace", "agents", "fronts")
    show(output, listed, columns, map(_row, listed))


def _entry(name: str, profile: Profile, default: str) -> records.ProfileEntry:
    return {
        "profile": name,
        "isDefault": name == default,
        "redis": masked(profile.redis),
        "namespace": profile.namespace,
        "agents": [*profile.agents],
        "fronts": [*profile.fronts],
    }


def _row(entry: records.ProfileEntry) -> tuple[str, ...]:
    return (
        "*" if entry["isDefault"] else "",
        entry["profile"],
        entry["redis"] or "-",
        entry["namespace"],
        " ".join(entry["agents"]) or "-",
        " ".join(entry["fronts"]) or "-",
    )
