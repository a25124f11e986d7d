"""What a process of the front shows of itself, and what several of them show together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

Samples: TypeAlias = Mapping[str, Sequence[tuple[Sequence[str], float]]]
"""Numbers by the name of their family: values of its labels, and the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontStatus:
    """What a front knows about its work."""

    unready: tuple[str, ...] = ()
    """Why it should get no requests; empty = nothing speaks against it."""

    feed_age_s: float | None = None
    """Time since it last heard that its table is up to date; None = it never has."""

    topics: int = 0
    """Topics whose routes are ready."""

    sessions: int = 0
    """Connections over which brokers have registered."""

    held: int = 0
    """Brokers and topics that are served although the store's last answer lacked them."""

    is_prober: bool = False
    """Whether it is the one that asks brokers which no agent watches."""

    switches: Mapping[str, str] = field(default_factory=dict)
    """What may be changed while it runs, by RocketMQ's names."""

    failure: str = ""
    """What has ended unexpectedly: the process has to be restarted; empty = nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """One process at one moment; with workers, what they show together."""

    version: str
    uptime_s: float
    listen: str
    """Host and port; empty = it does not accept connections."""

    store: str
    """The URL, without passwords."""

    namespace: str
    unhealthy: tuple[str, ...] = ()
    """Why the process should be restarted; empty = it works."""

    unready: tuple[str, ...] = ()
    """Why it should get no requests; empty = nothing speaks against it."""

    samples: Samples = field(default_factory=dict)
    front: FrontStatus | None = None
    workers: tuple[Mapping[str, Any], ...] = ()
    """What each worker shows, with its number and its process."""


class Family(NamedTuple):
    """One kind of number, and what it is for several processes together."""

    name: str
    """It ends with _total if it only grows: a counter; else it is a gauge."""

    help: str
    labels: tuple[str, ...] = ()
    together: Callable[[Iterable[float]], float] = sum

    @property
    def is_counter(self) -> bool:
        """Whether it only grows."""
        return self.name.endswith("_total")


FAMILIES: Final = (
    Family("ready", "Whether requests are answered from what is known to be true.", together=min),
    Family("connections", "Connections."),
    Family("accepted_total", "Connections that were accepted."),
    Family("endings_total", "Connections that this side refused or ended.", ("reason",)),
    Family("requests_total", "Requests.", ("code",)),
    Family("in_flight", "Requests that wait for the store."),
    Family("busy_total", "Requests that were refused because too many wait for the store."),
    Family("failures_total", "Requests that an unexpected error ended; the log has it."),
    Family("decode_errors_total", "Frames that could not be read."),
    Family("received_bytes_total", "Bytes that came in."),
    Family("sent_bytes_total", "Bytes that went out."),
    Family("unread_bytes", "Bytes of answers that peers have not taken yet."),
    Family("sessions", "Connections over which brokers have registered."),
    Family("prober", "Whether brokers that no agent watches are asked from here."),
    Family("topics", "Topics whose routes are ready.", together=max),
    Family("held", "Brokers and topics that are served although the store lacks them.", together=max),
    Family("feed_age_seconds", "Time since the table was known to be up to date.", together=max),
    Family("resident_memory_bytes", "Memory of the process, or of all workers."),
    Family("cpu_seconds_total", "CPU time, of user and system."),
)
"""Every number but those of the process as a whole: info, uptime_seconds, workers, worker_restarts_total."""


def front_samples(front: FrontStatus) -> dict[str, list[tuple[Sequence[str], float]]]:
    """Return the numbers of a front."""
    found: dict[str, float | None] = {
        "sessions": front.sessions,
        "prober": front.is_prober,
        "topics": front.topics,
        "held": front.held,
        "feed_age_seconds": front.feed_age_s,
    }
    return {name: [((), float(number))] for name, number in found.items() if number is not None}


def merged(found: Iterable[Samples]) -> dict[str, list[tuple[Sequence[str], float]]]:
    """Return the numbers of several processes as one."""
    every = list(found)
    return {family.name: _merged_family(family, every) for family in FAMILIES}


def _merged_family(family: Family, every: Iterable[Samples]) -> list[tuple[Sequence[str], float]]:
    numbers: dict[tuple[str, ...], list[float]] = {}
    for samples in every:
        for labels, number in samples.get(family.name, ()):
            numbers.setdefault(tuple(labels), []).append(number)
    return [(labels, family.together(values)) for labels, values in numbers.items()]


def only_counters(samples: Samples) -> Samples:
    """Return what stays when the process is gone: what only grows must not shrink."""
    names = {family.name for family in FAMILIES if family.is_counter}
    return {name: numbers for name, numbers in samples.items() if name in names}


def as_json(status: ProcessStatus) -> dict[str, Any]:
    """Return everything that is known."""
    found = {
        "version": status.version,
        "uptime_s": round(status.uptime_s, 3),
        "listen": status.listen,
        "healthy": not status.unhealthy,
        "ready": not status.unready,
        "reasons": [*status.unhealthy, *status.unready],
        "store": {"url": status.store, "namespace": status.namespace},
        "numbers": {name: _numbers(found) for name, found in status.samples.items() if found},
    }
    if status.front is not None:
        found["front"] = asdict(status.front)
    return found | ({"workers": status.workers} if status.workers else {})


def _numbers(found: Sequence[tuple[Sequence[str], float]]) -> float | dict[str, float]:
    """Return the only number, or those that are not 0 by their labels."""
    if len(found) == 1 and not found[0][0]:
        return found[0][1]
    return {",".join(labels): number for labels, number in found if number}
