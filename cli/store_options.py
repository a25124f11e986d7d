"""Shared by all commands that use the store: options, opening it, and messages about its errors."""

from __future__ import annotations

import functools
import getpass
import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ..daemon.printing import output_option
from ..registry import InvalidInput, RegistryConfig, RegistryError, RouteStore, StoreRefused
from ..registry.acl import Role, commands_of
from .profiles import profile_option
from .root import ended_by_sigterm

if TYPE_CHECKING:
    from ..registry import AsyncRouteStore

Store = TypeVar("Store", RouteStore, "AsyncRouteStore")

_NO_PERMISSION: Final = re.compile(r"NOPERM|no permissions? to |can't (?:run|access)", re.IGNORECASE)
_COMMAND: Final = re.compile(r"run the '([^']+)' command")
_NO_LOGIN: Final = re.compile(
    "WRONGPASS|NOAUTH|Authentication required|username-password|already authenticated", re.IGNORECASE
)


def namespace_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--namespace`, and `--profile`, which may name it."""
    command = profile_option(command)
    return click.option(
        "--namespace",
        default=RegistryConfig().namespace,
        envvar="SHAREDROUTES_NAMESPACE",
        show_envvar=True,
        show_default=True,
        help="The registry in the store.",
    )(command)


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--redis`, as `redis_url`, and `--namespace`."""
    return click.option(
        "--redis",
        "redis_url",
        metavar="URL",
        default="redis://127.0.0.1:6379/0",
        envvar="SHAREDROUTES_REDIS_URL",
        show_envvar=True,
        show_default=True,
        help="The shared store: redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix://.",
    )(namespace_option(command))


def with_store(needs: Role, *, prints: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an open store, and the options for which registry to use and how to print.

    `needs` is the ACL role that the command requires; the message about a missing permission names it. It is
    called with the store, and if it `prints` records, with how to.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @registry_options
        @functools.wraps(command)
        def run(redis_url: str, namespace: str, **given: Any) -> None:
            printing = (given.pop("output"),) if prints else ()
            with (
                ended_by_sigterm(),
                _warnings(),
                opened(RouteStore, redis_url, namespace) as store,
                told_errors(needs, namespace),
            ):
                command(store, *printing, **given)

        return output_option(run) if prints else run

    return decorate


@contextmanager
def _warnings() -> Iterator[None]:
    """Print the registry's log, such as a corrupt key that a listing leaves out, on standard error."""
    logger = logging.getLogger("sharedroutes")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def opened(kind: type[Store], redis_url: str, namespace: str) -> Store:
    """Return a store of a kind; raises UsageError for a URL or a namespace that cannot be one."""
    try:
        return kind.from_url(redis_url, RegistryConfig(namespace=namespace, actor=_operator()))
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def told_errors(needs: Role, namespace: str) -> Iterator[None]:
    """Make of a RegistryError a message, and exit status 1; `needs` is the role that the command requires."""
    try:
        yield
    except StoreRefused as error:
        what = click.get_current_context().command_path
        raise click.ClickException(_refusal(str(error), what, needs, namespace)) from error
    except RegistryError as error:
        raise click.ClickException(str(error)) from error


def _operator() -> str:
    """Return who runs this command, and where, as the records of what it changes say it."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container often runs as a number without a name
        name = str(os.getuid())
    return f"{click.get_current_context().command_path} of {name}@{socket.gethostname()}"[:200]


def _refusal(error: str, what: str, needs: Role, namespace: str) -> str:
    """Return the message about a refused `what`: the store's own, and how to get the permission."""
    if _NO_LOGIN.search(error):
        url = "redis://USER:PASSWORD@HOST:PORT/DB"
        return f"{error}\nGive the user and its password in the URL ({url}), or in a profile (docs/cli.md)."
    if not _NO_PERMISSION.search(error):
        return error
    lines = [error, f"{what} needs a user of Redis with the role {needs}{_lacking(error)}."]
    of_namespace = "" if namespace == RegistryConfig().namespace else f" --namespace {namespace}"
    return "\n".join([*lines, f"`sharedroutes acl {needs}{of_namespace}` prints the line that makes one."])


def _lacking(error: str) -> str:
    """Return which roles may not run the Redis command that was refused."""
    found = _COMMAND.search(error)
    roles = [role for role in Role if found and found[1].lower() not in commands_of(role)]
    return f"; {', '.join(roles)} may not run '{found[1]}'" if found and roles else ""
