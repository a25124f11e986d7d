"""The page about scale: what was measured at a few sizes, how wrong its lines are, and where they end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, log10
from typing import Final, NamedTuple

from ..kit.command import number
from ..scale import brokers, clients, replicas, topics
from ..scale.capacity import BUDGET, MS, Deployment, Prices, heartbeats_s
from ..scale.clients import at_replica
from ..scale.costs import COMMANDS, CONNECTIONS, CPU, MEMORY, RECEIVED, SENT, Check, Cost, costs
from .runs import Run, benchmarks_of
from .templates import TEMPLATES

NAME: Final = "scale"
BENCHMARKS: Final = ("scale.clients", "scale.replicas", "scale.brokers", "scale.topics")

LARGE: Final = Deployment(brokers=10_000, topics=1_000_000, clients=1_000_000)
_READERS: Final = (100_000, 500_000, 1_000_000)
_WRITTEN: Final = Deployment(LARGE.brokers, LARGE.topics)
"""What a primary bears beside replicas."""

_PACES: Final = (0.0, 1.0)
"""Changes in a second."""

_MAX_CLIENTS: Final = 10_000
"""Redis' default."""

_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))

_IN_BYTES: Final = {RECEIVED: 1, SENT: 1, MEMORY: 1e6}

_PARTS: Final = (CPU, COMMANDS, RECEIVED, SENT, MEMORY)

_ROWS: Final = {
    "a client, for a second with pulses": (clients.IDLE, clients.SERVER),
    "a client, for a second without": (clients.SILENT, ""),
    "a client, for a topic that changes": (clients.CHANGE, ""),
    "a client, for a broker that leaves and is back": (clients.BACK, ""),
    "a client that reads at a replica, for a second": (at_replica(clients.IDLE), at_replica(clients.SERVER)),
    "the same, at the primary of that replica": (clients.PRIMARY, ""),
    "a client at a replica, for a topic that changes": (at_replica(clients.CHANGE), ""),
    "a client at a replica, for a broker that leaves and is back": (at_replica(clients.BACK), ""),
    "a broker, for a second": (brokers.IDLE, brokers.SERVER),
    "a topic on three brokers, registered once": (topics.REGISTERED, topics.SERVER),
    "a replica, at its primary, for a second": (replicas.PULSES, ""),
    "a replica, at its primary, for a topic that changes": (replicas.CHANGE, ""),
    "a replica, at its primary, for a broker that leaves and is back": (replicas.BACK, ""),
    "a replica, at its primary, for a heartbeat": (replicas.HEARTBEAT, ""),
    "a heartbeat, at each replica": (replicas.APPLIED, ""),
}

_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 560, 56, 330
_FEWEST, _MOST = 1_000, 1_000_000
_LEAST_CPU, _MOST_CPU = 0.01, 1_000.0
_LABEL = 15.0


class Point(NamedTuple):
    """A place of the plot."""

    x: float
    y: float


class Curve(NamedTuple):
    """A line of the plot, of what a server spends on so many clients, and what was measured."""

    name: str
    color: str
    places: str
    label: Point
    measured: Sequence[Point]


def prices(runs: Sequence[Run]) -> Prices | None:
    """Return what runs say that everything costs; None if they lack something."""
    figures = [figure for one in benchmarks_of(runs) for figure in one["figures"]]
    return Prices.complete(costs(figures))


def text(runs: Sequence[Run], found: Prices) -> str:
    """Return the page in Markdown."""
    own = [run for run in runs if {one["name"] for one in run["benchmarks"]} & {*BENCHMARKS}]
    return TEMPLATES.get_template("scale.md.j2").render(
        runs=own,
        notes=[
            (one["name"], "; ".join(one["notes"])) for one in benchmarks_of(own) if one["name"] in BENCHMARKS
        ],
        units=[*_unit_costs(found)],
        checks=[*_checks(found)],
        own=_own(found),
        crowded=_crowded(found),
        large=LARGE,
        parts=[*_parts(found)],
        connections=f"{found.line(clients.SERVER, CONNECTIONS).each:.2g}",
        most_connected=f"{_rounded(_MAX_CLIENTS / found.line(clients.SERVER, CONNECTIONS).each):,}",
        full=[*_full(found)],
        told=[(f"{count:,}", f"{number(found.told_within_s(count))} s") for count in (10_000, *_READERS)],
        readers=[*_readers(found)],
        heartbeats=heartbeats_s(LARGE),
        fed=found.most_replicas(_WRITTEN),
        fed_by_relay=found.most_of_a_relay(_WRITTEN),
        budget=f"{BUDGET * 100:.0f} %",
    )


def _unit_costs(found: Prices) -> Iterator[tuple[str, ...]]:
    """Return what one more of each costs, a row each."""
    for name, (what, memory) in _ROWS.items():
        yield name, *(_each(part, _cost(found, what, memory, part)) for part in _PARTS)


def _cost(found: Prices, what: str, memory: str, part: str) -> Cost | None:
    return found.of.get((memory if part == MEMORY else what, part))


def _each(part: str, cost: Cost | None) -> str:
    if cost is None:
        return ""
    if part == CPU:
        return f"{number(cost.line.each * 1_000)} us"
    return number(cost.line.each) if part == COMMANDS else _bytes(cost.line.each * _IN_BYTES[part])


def _bytes(value: float) -> str:
    """Return bytes in the unit that suits them; nothing for none."""
    if not value:
        return ""
    size, unit = next((pair for pair in _UNITS if value >= pair[0]), _UNITS[-1])
    return f"{number(max(0.0, value) / size)} {unit}"


def _checks(found: Prices) -> Iterator[tuple[str, ...]]:
    """Return by how much lines were wrong at the sizes that they were not fitted to."""
    for name, (what, memory) in _ROWS.items():
        costs_of = (_cost(found, what, memory, part) for part in _PARTS)
        checks = [cost.checks if cost else () for cost in costs_of]
        sizes = (f"{check.at:,}" for check in next(filter(None, checks), ()))
        errors = ((f"{check.error * 100:+.1f} %" for check in of) for of in checks)
        if what != clients.PRIMARY:  # which has nothing to predict
            yield name, *(", ".join(cell) for cell in (sizes, *errors))


def _own(found: Prices) -> str:
    memory, cpu = (found.of.get((clients.OWN, part)) for part in (MEMORY, CPU))
    if memory is None or cpu is None:
        return ""
    return f"{_bytes(memory.line.each * 1e6)} and {number(cpu.line.each)} ms of CPU a second"


def _crowded(found: Prices) -> Check | None:
    """Return what the most clients took themselves, if that was more than one of the cores."""
    cost = found.of.get((clients.OWN, CPU))
    return cost.checks[-1] if cost and cost.checks[-1].measured > MS else None


def _parts(found: Prices) -> Iterator[tuple[str, ...]]:
    """Return what the large deployment takes of one server, part by part."""
    of = LARGE
    parts = {
        f"{of.clients:,} clients that hear pulses": Deployment(clients=of.clients),
        f"{of.clients:,} clients that hear none": Deployment(clients=of.clients, pulses=False),
        f"{of.brokers:,} brokers' heartbeats": Deployment(of.brokers),
        f"{of.topics:,} topics": Deployment(topics=of.topics),
    }
    for name, deployment in parts.items():
        load = found.primary(deployment)
        yield (
            name,
            f"{number(load.cpu * 100)} %" if load.cpu else "",
            f"{load.commands_s:,.0f}" if load.commands_s else "",
            f"{_bytes(load.sent_b_s)}/s" if load.sent_b_s else "",
            _bytes(load.memory_mb * 1e6),
        )
    for what, name in (
        (clients.CHANGE, "one change of a topic"),
        (clients.BACK, "one broker that leaves and is back"),
    ):
        cost = found.line(what, CPU).at(of.clients) / MS
        sent = found.line(what, SENT).at(of.clients)
        commands = f"{found.line(what, COMMANDS).at(of.clients):,.0f}" if (what, COMMANDS) in found.of else ""
        yield f"{name}, told to {of.clients:,} clients", f"{number(cost)} s", commands, _bytes(sent), ""


def _full(found: Prices) -> Iterator[tuple[str, str]]:
    """Return at which number one server is full, the first first."""
    limits = {
        "clients that hear no pulses": Deployment(pulses=False),
        "clients that hear pulses, nothing changes": Deployment(),
        **{f"clients, {_pace(pace)}": Deployment(changes_s=pace) for pace in (0.1, 1.0, 10.0)},
        "clients, a broker leaves and is back each minute": Deployment(returns_s=1 / 60),
        f"clients at a replica, {LARGE.brokers:,} brokers": Deployment(LARGE.brokers, replicas=1),
    }
    most = {name: found.most_clients(of) for name, of in limits.items()}
    most["brokers, no clients"] = found.most_brokers()
    for name, count in sorted(most.items(), key=lambda item: item[1]):
        yield name, f"{_rounded(count):,}"


def _rounded(count: float) -> int:
    """Return two digits of it: no more are known."""
    return int(float(f"{count:.2g}"))


def _pace(changes_s: float) -> str:
    if changes_s == 0:
        return "nothing changes"
    return f"{changes_s:g} changes a second" if changes_s != 1 else "a change a second"


def _readers(found: Prices) -> Iterator[tuple[str, ...]]:
    """Return how many replicas clients need, and what their primary does then, with relays between or not."""
    for count in _READERS:
        for pace in _PACES:
            of = replace(_WRITTEN, clients=count, changes_s=pace)
            of = replace(of, replicas=found.replicas(of))
            relays = ceil(of.replicas / max(1, found.most_of_a_relay(of)))
            primary, relayed = found.primary(of), found.primary(replace(of, replicas=relays))
            yield (
                f"{count:,}",
                _pace(pace),
                f"{of.replicas:,}",
                _bytes(found.replica(of).memory_mb * 1e6),
                _share(primary.cpu),
                f"{_bytes(primary.sent_b_s)}/s",
                f"{relays:,}",
                _share(relayed.cpu),
            )


def _share(cpu: float) -> str:
    """Return a part of a thread, in bold if that is more than it should."""
    shown = f"{number(cpu * 100)} %"
    return f"**{shown}**" if cpu > BUDGET else shown


def plot(found: Prices) -> str:
    """Return the plot of what clients take of one thread, as SVG."""
    curves = [*_curves(found)]
    ticks_x = [(_x(10.0**power), f"{10**power:,}") for power in range(3, 7)]
    ticks_y = [(_y(10.0**power), f"{10.0 ** (power + 2):g} %") for power in range(-2, 4)]
    return TEMPLATES.get_template("lines.svg.j2").render(
        title="What clients take of the one thread of a server",
        curves=curves,
        ticks_x=ticks_x,
        ticks_y=ticks_y,
        full=_y(1.0),
        left=_LEFT,
        right=_RIGHT,
        top=_TOP,
        bottom=_BOTTOM,
    )


def _curves(found: Prices) -> Iterator[Curve]:
    kinds: Mapping[str, tuple[str, Deployment]] = {
        "no pulses": ("#d62728", Deployment(pulses=False)),
        "10 changes a second": ("#9467bd", Deployment(changes_s=10)),
        "a change a second": ("#ff7f0e", Deployment(changes_s=1)),
        "pulses, no changes": ("#1f77b4", Deployment()),
    }
    steps = [_FEWEST * (_MOST / _FEWEST) ** (step / 40) for step in range(41)]
    above = -_LABEL
    for name, (color, kind) in sorted(
        kinds.items(), key=lambda item: -found.primary(_at(item[1][1], _MOST)).cpu
    ):
        loads = [found.primary(_at(kind, int(count))).cpu for count in steps]
        places = [Point(_x(count), _y(load)) for count, load in zip(steps, loads, strict=True)]
        idle = found.of[clients.IDLE if kind.pulses else clients.SILENT, CPU]
        checks = [] if kind.changes_s else [check for check in idle.checks if check.at >= _FEWEST]
        measured = [Point(_x(check.at), _y(check.measured / MS)) for check in checks]
        above = max(places[-1].y, above + _LABEL)  # labels do not lie on each other
        label = Point(places[-1].x + 8, above + 4)
        yield Curve(name, color, " ".join(f"{one.x},{one.y}" for one in places), label, measured)


def _at(kind: Deployment, count: int) -> Deployment:
    return replace(kind, clients=count)


def _x(count: float) -> float:
    share = (log10(count) - log10(_FEWEST)) / (log10(_MOST) - log10(_FEWEST))
    return round(_LEFT + (_RIGHT - _LEFT) * share, 1)


def _y(load: float) -> float:
    share = (log10(max(load, _LEAST_CPU)) - log10(_LEAST_CPU)) / (log10(_MOST_CPU) - log10(_LEAST_CPU))
    return round(_BOTTOM - (_BOTTOM - _TOP) * share, 1)
