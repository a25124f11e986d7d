"""`wipe`, `lift`, `forget`, `delete-topic` and `kv`: how an operator changes the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from ..daemon.printing import say
from ..registry import BrokerOwned, NotFound, RouteStore, StaleEpoch
from ..registry.acl import Role
from .known_names import broker_names, cluster_names, topic_names
from .root import Group
from .store_options import with_store
from .tables import show

if TYPE_CHECKING:
    from . import records


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="BROKER...", shell_complete=broker_names)
@with_store(Role.FRONT)
def wipe(store: RouteStore, output: str, names: tuple[str, ...]) -> None:
    """Take away the write permission of brokers until `lift`, so that producers leave before a shutdown.

    It takes effect at once, for all topics, and survives restarts of the broker.
    """
    _change_each(names, store.admin.wipe_write_perm, output)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="BROKER...", shell_complete=broker_names)
@with_store(Role.FRONT)
def lift(store: RouteStore, output: str, names: tuple[str, ...]) -> None:
    """Give brokers back the write permission that `wipe` has taken away."""
    _change_each(names, store.admin.add_write_perm, output)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="BROKER...", shell_complete=broker_names)
@with_store(Role.FRONT)
def forget(store: RouteStore, output: str, names: tuple[str, ...]) -> None:
    """Remove brokers that will not come back, with their topics.

    A broker with a live replica is refused: stop it first. Exit status 1 when one was not removed.
    """
    _change_each(names, store.admin.forget, output)


def _change_each(names: Iterable[str], change: Callable[[str], int], output: str) -> None:
    """Change one broker after the other; print the number of its topics, and name all problems at the end."""
    done: list[records.ChangedBroker] = []
    problems: list[str] = []
    for name in names:
        try:
            done.append({"brokerName": name, "topics": change(name)})
        except (BrokerOwned, NotFound, StaleEpoch) as error:
            problems.append(str(error))
    show(output, done, {"broker": "brokerName", "topics": "topics"})
    if problems:
        raise click.ClickException("; ".join(problems))


@click.command("delete-topic")
@click.argument("topic", shell_complete=topic_names)
@click.option("--cluster", shell_complete=cluster_names, help="Only from the brokers of this cluster.")
@with_store(Role.FRONT)
def delete_topic(store: RouteStore, output: str, topic: str, cluster: str | None) -> None:
    """Remove a topic from the tables and routes of all brokers.

    This is for topics of brokers that are gone. A live broker that still has the topic registers it again
    within a heartbeat: delete the topic on that broker (mqadmin deleteTopic), and its agent removes it here.
    """
    brokers = store.admin.delete_topic(topic, cluster)
    show(output, [{"brokerName": name} for name in brokers], {"broker": "brokerName"})
    if not brokers:
        raise click.ClickException(f"no broker{f' of cluster {cluster!r}' if cluster else ''} has {topic!r}")
    live = [broker.broker_name for broker in store.brokers() if broker.broker_name in brokers]
    if live:
        are_live = f"{', '.join(live)} {'are' if len(live) > 1 else 'is'} live"
        click.echo(
            f"warning: {are_live}: while the broker has {topic!r}, its next registration brings it back, "
            "within a heartbeat.\n"
            "Delete the topic on the broker instead (mqadmin deleteTopic): its agent then removes it here.",
            err=True,
        )


@click.group(cls=Group)
def kv() -> None:
    """Read and write the key-value store, for example topics' order configuration (ORDER_TOPIC_CONFIG)."""


@kv.command("put")
@click.argument("namespace_", metavar="NAMESPACE")
@click.argument("key")
@click.argument("value")
@with_store(Role.FRONT)
def _put(store: RouteStore, output: str, namespace_: str, key: str, value: str) -> None:
    """Set a value."""
    changed = store.kv.put(namespace_, key, value)
    say(output, {"changed": changed}, "set" if changed else "as it was")


@kv.command("get")
@click.argument("namespace_", metavar="NAMESPACE")
@click.argument("key")
@with_store(Role.READER)
def _get(store: RouteStore, output: str, namespace_: str, key: str) -> None:
    """Print a value; exit status 1 when there is none."""
    value = store.kv.get(namespace_, key)
    if value is None:
        raise click.ClickException(f"namespace {namespace_!r} has no key {key!r}")
    say(output, {"namespace": namespace_, "key": key, "value": value}, value)


@kv.command("delete")
@click.argument("namespace_", metavar="NAMESPACE")
@click.argument("key")
@with_store(Role.FRONT)
def _delete(store: RouteStore, output: str, namespace_: str, key: str) -> None:
    """Remove a value, if there is one."""
    removed = store.kv.delete(namespace_, key)
    say(output, {"removed": removed}, "removed" if removed else "no such key")


@kv.command("list")
@click.argument("namespace_", metavar="[NAMESPACE]", required=False)
@with_store(Role.READER)
def _list(store: RouteStore, output: str, namespace_: str | None) -> None:
    """List the namespaces, or the keys and values of one."""
    if namespace_ is None:
        names = store.kv.namespaces()
        show(output, [{"namespace": name} for name in names], {"namespace": "namespace"})
        return
    found = store.kv.entries(namespace_)
    pairs = [{"key": key, "value": value} for key, value in sorted((found or {}).items())]
    if found is not None or output != "table":
        show(output, pairs, {"key": "key", "value": "value"})
    if found is None:
        raise click.ClickException(f"there is no namespace {namespace_!r}")
