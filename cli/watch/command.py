"""The command `watch`."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Final

import click

from ...daemon.option import masked
from ...registry import AsyncRouteStore, InvalidInput, RegistryConfig, StoreRefused
from ...registry.acl import Role
from ..store_options import operator, refusal, registry_options
from .app import WatchApp

_NO_TERMINAL: Final = "watch needs a terminal; `sharedroutes changes --follow` tells the same to a pipe"


@click.command()
@registry_options
def watch(redis_url: str, namespace: str) -> None:
    """Show brokers with leases that run down, topics, changes as they happen, and faults, until `q`.

    Keys: 1 brokers, 2 topics, 3 changes, 4 faults; / searches, Escape shows everything again; f shows all,
    only what lives, or only what is in trouble; the arrows move; q ends it. A store that is away is waited
    for. Exit status 0 after q, 130 after Ctrl-C, 143 after SIGTERM, 1 when the store refuses.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(_NO_TERMINAL)
    # What the registry logs would be written into the view, which shows it itself.
    logging.getLogger("sharedroutes").addHandler(logging.NullHandler())
    logging.getLogger("sharedroutes").propagate = False
    app = asyncio.run(_watched(redis_url, namespace))
    if isinstance(app.error, StoreRefused):
        what = click.get_current_context().command_path
        raise click.ClickException(refusal(str(app.error), what, Role.READER, namespace))
    if app.error is not None:
        raise click.ClickException(str(app.error))
    sys.exit(app.return_code or 0)


async def _watched(redis_url: str, namespace: str) -> WatchApp:
    """Run the view; return it when it has ended."""
    try:
        config = RegistryConfig(namespace=namespace, actor=operator())
        store = AsyncRouteStore.from_url(redis_url, config)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    async with store:
        app = WatchApp(store, f"{namespace} at {masked(redis_url)}")
        await app.run_async()
        return app
