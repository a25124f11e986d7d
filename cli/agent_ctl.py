"""`agent-ctl`: asks a running agent process how it is, and tells it what to do, over its HTTP port."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

import click

from ..daemon.printing import output_option, print_record, print_records
from .processes import AGENT_HTTP, NoAnswer, Place
from .root import Group

_POLL_S: Final = 0.2
_COMPLETED_S: Final = 1.0
"""The longest that a shell waits for the names that complete a word."""
_OUT: Final = frozenset(("paused", "stopping"))
"""Phases of a broker that an operator has taken out of the registry, or is about to."""
_BACK: Final = "; `sharedroutes agent-ctl resume --broker "
_MASTER_FIELDS: Final = ("name", "role", "master_address", "master_ha_address")
_TROUBLES: Final = ("why_gone", "trouble", "waiting", "source_trouble", "advice", "stuck")


def _not_empty(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty name: somebody has meant one broker, and it would mean all of them."""
    if value == "":
        raise click.BadParameter("is empty: leave it out to mean all brokers")
    return value


def _names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the brokers of the agent that a shell may go on with; an agent that does not answer has none."""
    address = context.parent.params["address"] if context.parent else AGENT_HTTP
    with suppress(NoAnswer, click.BadParameter, ValueError, KeyError, TypeError):
        page = json.loads(Place.of(address, "--http").ask("GET", "/status", within_s=_COMPLETED_S))
        return sorted(one["name"] for one in page["brokers"] if one["name"].startswith(incomplete))
    return []


_BROKER: Final = click.option(
    "--broker",
    metavar="NAME",
    callback=_not_empty,
    shell_complete=_names,
    help="Only this broker, as broker-a or broker-a:0.  [default: all]",
)
_WAIT: Final = click.option(
    "--wait",
    "timeout_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Wait until it is done, at most so long.",
)


@click.group("agent-ctl", cls=Group)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    default=AGENT_HTTP,
    envvar="SHAREDROUTES_HTTP",
    show_envvar=True,
    show_default=True,
    help="Where the agent serves HTTP.",
)
@click.pass_context
def agent_ctl(context: click.Context, address: str) -> None:
    """Show the state of a running agent, and control it.

    Exit status: 0 = done, or yes; 1 = no, or the agent does not answer; 2 = wrong usage.
    """
    context.obj = _Agent(Place.of(address, "--http"))


@agent_ctl.command()
@output_option
@click.pass_obj
def status(agent: _Agent, output: str) -> None:
    """Print what the agent is doing."""
    found = agent.status()
    if output != "table":
        print_record(output, found)
        return
    click.echo(
        f"sharedroutes {found['version']}, up for {found['uptime_s']:.0f} s, store {found['store']['url']}"
    )
    for why in found["awaited"]:
        click.echo(why)
    for broker in found["brokers"]:
        topics = "1 topic" if broker["topics"] == 1 else f"{broker['topics']} topics"
        facts = f"{broker['role']}, {topics}, {_heartbeat(broker)}"
        click.echo(f"{broker['name']}: {broker['phase']} for {broker['phase_s']:.0f} s, {facts}")
        for line in filter(None, (_meaning(broker), *map(broker.__getitem__, _TROUBLES))):
            click.echo(f"  {line}")


@agent_ctl.command()
@_BROKER
@output_option
@click.pass_obj
def master(agent: _Agent, broker: str | None, output: str) -> None:
    """Print where the masters of slaves are; exit with 1 when one is not known."""
    found = [one for one in agent.status()["brokers"] if _is_meant(one, broker)]
    if broker is not None and not found:
        raise click.ClickException(f"{broker}: the agent does not manage it")
    records = ({key: one[key] for key in _MASTER_FIELDS} for one in found)
    print_records(output, records, (f"{one['name']}: {_master(one)}" for one in found))
    sys.exit(int(any(one["role"] != "master" and not one["master_address"] for one in found)))


@agent_ctl.command()
@click.pass_obj
def health(agent: _Agent) -> None:
    """Exit with 0 when the process works, else with 1."""
    click.echo(agent.ask("GET", "/healthz"), nl=False)


@agent_ctl.command()
@click.pass_obj
def ready(agent: _Agent) -> None:
    """Exit with 0 when every broker is served or on standby, else with 1."""
    click.echo(agent.ask("GET", "/readyz"), nl=False)


@agent_ctl.command()
@_BROKER
@click.option(
    "--after",
    "wait_s",
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="Time between the two; by default drain_wait_s.",
)
@_WAIT
@output_option
@click.pass_obj
def drain(
    agent: _Agent, broker: str | None, wait_s: float | None, timeout_s: float | None, output: str
) -> None:
    """Take the write permission of brokers away, wait, and take them out of the registry until a resume."""
    agent.control("drain", output, broker, timeout_s, **({} if wait_s is None else {"wait_s": wait_s}))


@agent_ctl.command()
@_BROKER
@_WAIT
@output_option
@click.pass_obj
def pause(agent: _Agent, broker: str | None, timeout_s: float | None, output: str) -> None:
    """Take brokers out of the registry at once, until a resume."""
    agent.control("pause", output, broker, timeout_s)


@agent_ctl.command()
@_BROKER
@output_option
@click.pass_obj
def resume(agent: _Agent, broker: str | None, output: str) -> None:
    """Let brokers come back after a drain or a pause."""
    agent.control("resume", output, broker)


@agent_ctl.command()
@output_option
@click.pass_obj
def reload(agent: _Agent, output: str) -> None:
    """Make the agent read all its files anew; exit with 1 when something could not be applied."""
    problems = json.loads(agent.ask("POST", "/reload"))["problems"]
    print_records(output, ({"problem": problem} for problem in problems), problems)
    sys.exit(1 if problems else 0)


class _Agent:
    """The HTTP interface of one agent process."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def ask(self, method: str, path: str) -> str:
        """Return what is answered; end with 1 when nobody answers, or with anything but a success."""
        try:
            return self._place.ask(method, path)
        except NoAnswer as error:
            raise click.ClickException(str(error)) from error

    def status(self) -> dict[str, Any]:
        """Return what the agent says of itself; end with 1 if it is none."""
        try:
            found: dict[str, Any] = json.loads(self.ask("GET", "/status"))
            found["brokers"]
        except (ValueError, KeyError, TypeError):
            raise click.ClickException(f"{self._place} is no agent: see --http") from None
        return found

    def control(
        self,
        action: str,
        output: str,
        broker: str | None,
        timeout_s: float | None = None,
        **parameters: float,
    ) -> None:
        """Tell the agent to do something, and with `timeout_s` wait until the brokers are out."""
        query = urlencode({**({"broker": broker} if broker else {}), **parameters})
        names: list[str] = json.loads(self.ask("POST", f"/{action}?{query}"))["brokers"]
        records = ({"action": action, "name": name} for name in names)
        print_records(output, records, (f"{action}: {', '.join(names)}",))
        if timeout_s is not None:
            self._until_out(names, timeout_s)

    def _until_out(self, names: Iterable[str], timeout_s: float) -> None:
        """Wait until brokers are out of the registry; end with 1 after the time."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            brokers = json.loads(self.ask("GET", "/status"))["brokers"]
            found = [one for name in names for one in _named(name, brokers)]
            waiting = [one for one in found if one["phase"] not in _OUT or one["may_be_served"]]
            if not waiting:
                return
            if time.monotonic() >= deadline_s:
                left = "; ".join(map(_why_in, waiting))
                raise click.ClickException(f"not out of the registry within {timeout_s:g} s: {left}")
            time.sleep(_POLL_S)


def _named(name: str, brokers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the broker of that name, or those with another id by now: an election may have changed it."""
    same = [one for one in brokers if one["name"] == name]
    same = same or [one for one in brokers if _without_id(one["name"]) == _without_id(name)]
    if not same:
        raise click.ClickException(f"{name}: the agent no longer manages it: it may still be registered")
    return same


def _without_id(name: str) -> str:
    return name.partition(":")[0]


def _why_in(broker: dict[str, Any]) -> str:
    trouble = broker.get("trouble")
    return f"{broker['name']} {broker['phase']}" + (f": {trouble}" if trouble else "")


def _is_meant(broker: dict[str, Any], name: str | None) -> bool:
    return name in (None, broker["name"], _without_id(broker["name"]))


def _master(broker: dict[str, Any]) -> str:
    if broker["role"] == "master":
        return "is a master"
    if broker["master_address"]:
        return f"master {broker['master_address']}, HA {broker['master_ha_address']}"
    return "no master is known" if broker["master_address"] is None else "no master is alive"


def _heartbeat(broker: dict[str, Any]) -> str:
    """Return how the lease is: a broker that is out has none, however many heartbeats there were."""
    heartbeat_s = broker["last_heartbeat_s"]
    if heartbeat_s is not None:
        return f"heartbeat {heartbeat_s:.1f} s ago"
    if not broker["may_be_served"] and broker["phase"] in _OUT:
        return "out of the registry: no heartbeats"
    sent = broker["heartbeats"]
    return f"no lease now, {sent} heartbeats before" if sent else "no heartbeat yet"


def _meaning(broker: dict[str, Any]) -> str:
    """Return what a phase that an operator has brought about means, and how it ends; '' for the others."""
    name = broker["name"]
    if broker["phase"] == "draining":
        what = "it is being drained: nobody may write to it, and it leaves the registry after the wait"
        return f"{what}{_BACK}{name}` brings it back"
    if broker["phase"] == "paused" and broker["may_be_served"]:
        return "an operator has taken it out, and the store does not say so yet"
    if broker["phase"] == "paused":
        return f"an operator has taken it out{_BACK}{name}` brings it back"
    return ""
