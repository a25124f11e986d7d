"""The options that say which registry a command is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--redis`, as `redis_url`, and `--namespace`."""
    namespace = click.option(
        "--namespace",
        default="sharedroutes",
        envvar="SHAREDROUTES_NAMESPACE",
        show_envvar=True,
        show_default=True,
        help="The registry in the store.",
    )
    redis_url = click.option(
        "--redis",
        "redis_url",
        metavar="URL",
        default="redis://127.0.0.1:6379/0",
        envvar="SHAREDROUTES_REDIS_URL",
        show_envvar=True,
        show_default=True,
        help="The shared store: redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix://.",
    )
    return redis_url(namespace(command))
