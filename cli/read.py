"""`topics` and `routes`: what the registry says at the moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..registry import BrokerData, Role, RouteStore, TopicKind, TopicRoute
from .on_store import with_store
from .printing import print_json, print_table


@click.command()
@click.option("--cluster", help="Only what the brokers of this cluster hold.")
@click.option(
    "--kind",
    type=click.Choice([*TopicKind], case_sensitive=False),
    default=TopicKind.ALL,
    show_default=True,
    help="Only topics with these system flags.",
)
@with_store(Role.READER)
def topics(store: RouteStore, output: str, cluster: str | None, kind: str) -> None:
    """List the topics that a live broker holds."""
    found = store.topics(cluster, TopicKind(kind))
    if output == "json":
        print_json(found)
    else:
        print_table(("topic",), ((topic,) for topic in found))


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@with_store(Role.READER)
def routes(store: RouteStore, output: str, names: tuple[str, ...]) -> None:
    """Show which live brokers hold the topics, with how many queues, and where.

    Exit status 1 when a topic has no route; the others are shown.
    """
    lookup = store.lookup(names)
    found = lookup.routes()
    if output == "json":
        print_json({topic: _route_data(route) for topic, route in found.items()})
    elif found:
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


def broker_data(broker: BrokerData) -> dict[str, Any]:
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
    return {"queueDatas": queue_datas, "brokerDatas": [broker_data(broker) for broker in route.broker_datas]}
