"""What the questions to several registries share: the others' brokers, and figures of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from urllib.parse import urlsplit

from .. import redis_benchmark
from ..figures import Contestant, Figure, ratio
from ..workload import Table
from .all import Field, Running
from .ours import OURS
from .registry import Session

LASTING_S = 120.0
"""Of leases that are to outlast a round."""


def named(what: str, registry: str) -> str:
    """Return the name of a figure; the page takes it apart again."""
    return f"{what}: {registry}"


@contextmanager
def registered(field: Field, of_brokers: Mapping[str, Table]) -> Iterator[dict[str, list[Session]]]:
    """Register these brokers at each registry, by a session each, until the block ends."""
    with ExitStack() as stack:
        found: dict[str, list[Session]] = {}
        for name, one in field.running.items():
            sessions = found[name] = []
            for broker, table in of_brokers.items():
                session = stack.enter_context(one.session(LASTING_S))
                if not sessions:
                    session.prepare(table)
                session.registering(broker, table)()
                sessions.append(session)
        yield found


def beat(sessions: Iterable[Session]) -> None:
    """Renew the leases of these sessions."""
    for session in sessions:
        session.beat()


def figures_of(what: str, unit: str, values: Mapping[str, Sequence[float]]) -> list[Figure]:
    """Return a figure for each registry, then how many times ours each other is."""
    found = {name: Figure(named(what, name), unit, rounds) for name, rounds in values.items()}
    ours = found.get(OURS.name)
    others = [one for name, one in found.items() if name != OURS.name] if ours else []
    same = [one for one in others if ours and len(one.rounds) == len(ours.rounds)]
    return [*found.values(), *(ratio(one, ours) for one in same if ours)]


def limited(
    field: Field, contestants: dict[str, Contestant], name: str, measure: Callable[[int], float], what: str
) -> list[str]:
    """Add what our server can do at most, measured at its port; where that cannot be, say why not."""
    if not redis_benchmark.is_there():
        return [redis_benchmark.ABSENT.format(what)]
    port = urlsplit(field.running[OURS.name].server.address).port or 0
    contestants[name] = partial(measure, port)
    return []


def of_field(field: Field, names: Iterable[str]) -> dict[str, Running]:
    """Return those of the names that run here."""
    return {name: field.running[name] for name in names if name in field.running}
