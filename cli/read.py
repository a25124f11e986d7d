"""`topics`, `brokers` and `routes`: what the registry says at the moment."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, Final, ParamSpec

import click
import orjson
from rich.console import Console
from rich.table import Table

from ..registry import (
    BrokerData,
    InvalidInput,
    RegistryConfig,
    RegistryError,
    RouteStore,
    TopicKind,
    TopicRoute,
)
from .registry_options import registry_options

__all__ = ["brokers", "print_json", "print_table", "routes", "topics", "with_store"]

P = ParamSpec("P")

_PIPE_COLUMNS: Final = 1_000
"""The width for a reader that is no terminal: nothing is folded, so that a line is a row."""


def with_store(command: Callable[Concatenate[RouteStore, str, P], None]) -> Callable[..., None]:
    """Give a command the options that say which registry to read and how to print it."""

    @registry_options
    @click.option(
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="For people, or for programs.",
    )
    @functools.wraps(command)
    def run(redis_url: str, namespace: str, output: str, *args: P.args, **kwargs: P.kwargs) -> None:
        with _open(redis_url, namespace) as store:
            command(store, output, *args, **kwargs)

    return run


@contextmanager
def _open(redis_url: str, namespace: str) -> Iterator[RouteStore]:
    """Give a store; a RegistryError becomes one line and exit status 1, a wrong option 2."""
    try:
        store = RouteStore.from_url(redis_url, RegistryConfig(namespace=namespace))
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    with store:
        try:
            yield store
        except RegistryError as error:
            raise click.ClickException(str(error)) from error


@click.command()
@click.option("--cluster", help="Only what the brokers of this cluster hold.")
@click.option(
    "--kind",
    type=click.Choice([*TopicKind], case_sensitive=False),
    default=TopicKind.ALL,
    show_default=True,
    help="Only topics with these system flags.",
)
@with_store
def topics(store: RouteStore, output: str, cluster: str | None, kind: str) -> None:
    """List the topics that a live broker holds."""
    found = store.topics(cluster, TopicKind(kind))
    if output == "json":
        print_json(found)
    else:
        print_table(("topic",), ((topic,) for topic in found))


@click.command()
@with_store
def brokers(store: RouteStore, output: str) -> None:
    """List the live brokers with the addresses of their live replicas; the one with id 0 is the master."""
    found = store.brokers()
    if output == "json":
        print_json([_broker_data(broker) for broker in found])
    else:
        rows = (
            (broker.cluster, broker.broker_name, str(broker_id), address, "wiped" if broker.wiped else "")
            for broker in found
            for broker_id, address in sorted(broker.broker_addrs.items())
        )
        print_table(("cluster", "broker", "id", "address", "write permission"), rows)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@with_store
def routes(store: RouteStore, output: str, names: tuple[str, ...]) -> None:
    """Show which live brokers hold the topics, with how many queues, and where.

    Exit status 1 when a topic has no route; the others are shown.
    """
    lookup = store.lookup(names)
    found = lookup.routes()
    if output == "json":
        print_json({topic: _route_data(route) for topic, route in found.items()})
    else:
        columns = ("topic", "broker", "read queues", "write queues", "perm", "id", "address")
        print_table(columns, (row for route in found.values() for row in _route_rows(route)))
    problems = [str(error) for error in lookup.corrupt]
    problems += [f"no live broker holds {topic!r}" for topic in dict.fromkeys(names) if topic not in found]
    if problems:
        raise click.ClickException("; ".join(problems))


def _route_rows(route: TopicRoute) -> Iterator[tuple[str, ...]]:
    members = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
    for queues in route.queue_datas:
        for broker_id, address in sorted(members[queues.broker_name].items()):
            numbers = (queues.read_queue_nums, queues.write_queue_nums, queues.perm, broker_id)
            yield (route.topic, queues.broker_name, *map(str, numbers), address)


def _broker_data(broker: BrokerData) -> dict[str, Any]:
    """Return the object in RocketMQ's terms."""
    addresses = {str(broker_id): address for broker_id, address in sorted(broker.broker_addrs.items())}
    data = {"cluster": broker.cluster, "brokerName": broker.broker_name, "brokerAddrs": addresses}
    traits = {
        "zoneName": broker.zone_name,
        "enableActingMaster": broker.enable_acting_master,
        "writePermWiped": broker.wiped,
    }
    return data | {name: value for name, value in traits.items() if value}


def _route_data(route: TopicRoute) -> dict[str, Any]:
    """Return the object in RocketMQ's terms (TopicRouteData)."""
    queue_datas = [
        {
            "brokerName": queues.broker_name,
            "readQueueNums": queues.read_queue_nums,
            "writeQueueNums": queues.write_queue_nums,
            "perm": queues.perm,
            "topicSysFlag": queues.topic_sys_flag,
        }
        for queues in route.queue_datas
    ]
    return {"queueDatas": queue_datas, "brokerDatas": [_broker_data(broker) for broker in route.broker_datas]}


def print_json(value: Any) -> None:
    """Print a value for programs."""
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows for people; a line is a row for a reader that is no terminal."""
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    # Names are printed as they are: neither "[bold]" nor ":x:" in one means anything.
    Console(width=width, markup=False, emoji=False, highlight=False).print(table)
