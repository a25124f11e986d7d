"""Profiles: named registries in a file, whose values are the defaults of a command's options; `profiles`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from ..daemon.option import masked, nearest
from ..daemon.printing import output_option
from ..registry import RegistryConfig

_OTHERS: Final = 0o077
"""The rights of a file that let others than its owner at it."""

_LISTS: Final = ("agents", "fronts")


class BadProfile(Exception):
    """The file of the profiles, or what a profile names, cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One registry, and who asks it."""

    redis: str = ""
    """The URL of the store; empty = the default one."""

    namespace: str = RegistryConfig().namespace
    user: str = ""
    """Of the store; empty = the one that the URL names."""

    password_file: str = ""
    password_variable: str = ""
    agents: tuple[str, ...] = ()
    fronts: tuple[str, ...] = ()
    """Where agents and fronts serve HTTP, as host:port."""

    def url(self, environment: Mapping[str, str]) -> str:
        """Return the URL with user and password; raise BadProfile where the password is not to be had."""
        password = self._password(environment)
        if not self.user and password is None:
            return self.redis
        scheme, _, rest = self.redis.partition("://")
        end = next((place for place, letter in enumerate(rest) if letter in "/?#"), len(rest))
        credentials, _, hosts = rest[:end].rpartition("@")
        of_url = credentials.partition(":")
        user = quote(self.user, safe="") or of_url[0]
        secret = of_url[2] if password is None else quote(password, safe="")
        return f"{scheme}://{user}:{secret}@{hosts}{rest[end:]}"

    def _password(self, environment: Mapping[str, str]) -> str | None:
        if self.password_variable:
            if self.password_variable not in environment:
                raise BadProfile(f"password_variable: the variable {self.password_variable} is not set")
            return environment[self.password_variable]
        if not self.password_file:
            return None
        path = Path(self.password_file).expanduser()
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadProfile(f"password_file: {path}: {getattr(error, 'strerror', error)}") from error


@dataclass(frozen=True, slots=True)
class Profiles:
    """The contents of the file."""

    default: str = ""
    """The profile that is used when none is named; empty = none is."""

    named: Mapping[str, Profile] = field(default_factory=dict)

    def get(self, name: str) -> Profile:
        """Return a profile; raise BadProfile with the nearest name for an unknown one."""
        if name in self.named:
            return self.named[name]
        known = f": there are {', '.join(self.named)}" if self.named else ": none is named"
        raise BadProfile(f"there is no profile {name!r}{nearest(name, [*self.named]) or known}")


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Return where the profiles are: in $XDG_CONFIG_HOME, or ~/.config."""
    folder = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "sharedroutes" / "profiles.toml"


def load(path: Path) -> Profiles:
    """Return the profiles of a file, none if it is not there; raise BadProfile."""
    try:
        text = path.read_bytes()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise BadProfile(f"{path}: {error.strerror or error}") from error
    try:
        found = parse(tomllib.loads(text.decode()))
    except (BadProfile, ValueError) as error:  # no UTF-8, no TOML
        raise BadProfile(f"{path}: {error}") from error
    if mode & _OTHERS and any(masked(one.redis) != one.redis for one in found.named.values()):
        raise BadProfile(f"{path}: a URL holds a password, and others may read it: chmod 600 {path}")
    return found


def parse(document: Mapping[str, Any]) -> Profiles:
    """Return the profiles of a document; raise BadProfile, which names the key that is wrong."""
    _check_keys("", document, ("default", "profiles"))
    default, tables = document.get("default", ""), document.get("profiles", {})
    if not isinstance(default, str) or not isinstance(tables, dict):
        raise BadProfile("default is the name of a profile, and [profiles.NAME] is a table")
    profiles = Profiles(default, {name: _profile(name, table) for name, table in tables.items()})
    if default:
        profiles.get(default)
    return profiles


def _profile(name: str, table: Any) -> Profile:
    if not isinstance(table, dict):
        raise BadProfile(f"profiles.{name}: is no table")
    _check_keys(f"profiles.{name}.", table, [one.name for one in fields(Profile)])
    found = Profile(**{key: _value(f"profiles.{name}.{key}", key, value) for key, value in table.items()})
    if found.password_file and found.password_variable:
        raise BadProfile(f"profiles.{name}: password_file and password_variable: give one of them")
    if not found.redis and (found.user or found.password_file or found.password_variable):
        raise BadProfile(f"profiles.{name}: has a user or a password, and no redis to give it to")
    return found


def _value(where: str, key: str, value: Any) -> Any:
    if key not in _LISTS:
        if isinstance(value, str):
            return value
        raise BadProfile(f"{where}: is no text")
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise BadProfile(f"{where}: is no list of host:port")


def _check_keys(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            hint = nearest(key, known) or f"; known are {', '.join(known)}"
            raise BadProfile(f"{where}{key}: there is no such key{hint}")


def _use(context: click.Context, _: click.Parameter, name: str | None) -> str | None:
    """Make the values of a profile the defaults of the command's options."""
    try:
        found = load(profiles_file(os.environ))
        name = name or found.default
        if not name:
            return None
        profile = found.get(name)
        url = profile.url(os.environ)
    except BadProfile as error:
        raise click.UsageError(str(error), context) from error
    values = {**asdict(profile), "redis_url": url}
    context.default_map = {**(context.default_map or {}), **{key: one for key, one in values.items() if one}}
    return name


def _names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the profiles that a shell may go on with; a file that is wrong has none."""
    with suppress(BadProfile):
        return sorted(name for name in load(profiles_file(os.environ)).named if name.startswith(incomplete))
    return []


profile_option: Final = click.option(
    "--profile",
    metavar="NAME",
    shell_complete=_names,
    envvar="SHAREDROUTES_PROFILE",
    show_envvar=True,
    is_eager=True,  # the other options take their defaults from it
    expose_value=False,
    callback=_use,
    help="A profile of ~/.config/sharedroutes/profiles.toml.  [default: the one that the file names]",
)


@click.command("profiles")
@output_option
def profiles(output: str) -> None:
    """List the profiles of ~/.config/sharedroutes/profiles.toml; the default one is marked with `*`."""
    from .tables import Cell, show  # noqa: PLC0415 - it needs rich, and other commands with profiles do not

    try:
        found = load(profiles_file(os.environ))
    except BadProfile as error:
        raise click.ClickException(str(error)) from error
    entries = [
        {
            "profile": name,
            "isDefault": name == found.default,
            "redis": masked(profile.redis),
            "namespace": profile.namespace,
            "agents": [*profile.agents],
            "fronts": [*profile.fronts],
        }
        for name, profile in sorted(found.named.items())
    ]
    columns: dict[str, Cell] = {
        "": lambda entry: "*" if entry["isDefault"] else "",
        "profile": "profile",
        "redis": lambda entry: entry["redis"] or "-",
        "namespace": "namespace",
        "agents": "agents",
        "fronts": "fronts",
    }
    show(output, entries, columns)
