"""The settings of a simulated fleet: its size, its traffic, what happens to it; units are in the names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import orjson

from sharedroutes.pipeline.errors import BadOption

from .checks import check_count, check_number
from .systems import SYSTEMS, ClientFaults, NameServers, SharedRoutes, System

__all__ = ["KINDS", "FaultModel", "FleetConfig", "Happening", "Kind", "Traffic"]

Kind: TypeAlias = Literal["crash", "hang", "lost", "restart"]

KINDS: Final[tuple[Kind, ...]] = ("crash", "hang", "lost", "restart")
"""crash: the process is killed, its connections close. hang: the process stands still, its port stays open,
its agent runs. lost: the host is gone or cut off, nothing closes. restart: it ends in good order and is back.
"""

_HOURS_S: Final = 3_600.0
_MOST_FAULTS: Final = 200_000
_MOST_TOUCHED: Final = 2e9
_MOST_CLIENT_S: Final = 4e11
"""Twenty times as many microseconds still are a number of 64 bits: no length is twenty times the mean."""

_MOST_WEIGHTS: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """How often something happens, at random moments, and how long it lasts; raises BadOption."""

    per_hour: float = 0.0
    """The rate while it does not last: of each broker, or of the store."""

    mean_s: float = 60.0
    """How long it lasts in the mean."""

    fixed: bool = False
    """Whether it always lasts so long; else its length is exponentially distributed."""

    def __post_init__(self) -> None:
        check_number("per_hour", self.per_hour, 0, 1_000)
        check_number("mean_s", self.mean_s, 0.001)
        if not isinstance(self.fixed, bool):
            raise BadOption(f"fixed: expected true or false, got {self.fixed!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultModel:
    """What happens to each broker, to one of these at a time, and to the store; raises BadOption."""

    crash: Happening = Happening(per_hour=1 / 720, mean_s=60.0)
    """The process is killed: the system closes its connections."""

    hang: Happening = Happening(per_hour=1 / 1_440, mean_s=60.0)
    """The process stands still, its port stays open; its agent runs."""

    lost: Happening = Happening(per_hour=1 / 1_440, mean_s=600.0)
    """The host is gone or cut off, with its agent: nothing closes."""

    restart: Happening = Happening(per_hour=1 / 168, mean_s=30.0)
    """The broker ends in good order, and is back after a while."""

    store_outage: Happening = Happening(per_hour=1 / 168, mean_s=20.0)
    """Of the store: nothing is announced, and clients go on with the routes they know."""

    def __post_init__(self) -> None:
        for name in (*KINDS, "store_outage"):
            if not isinstance(getattr(self, name), Happening):
                raise BadOption(f"{name}: expected a Happening, got {getattr(self, name)!r}")

    def of(self, kind: Kind) -> Happening:
        """Return how often one kind of fault happens."""
        found: Happening = getattr(self, kind)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What each client does; raises BadOption.

    Sends come at random (a Poisson process), each to one of the client's topics, and there to a queue at
    random, which all brokers of the topic have the same number of.
    """

    sends_per_s: float = 1.0
    """First attempts of one client; what a failed one leads to goes elsewhere and is not counted."""

    topics_per_client: int = 2
    """Drawn with repetition: a topic drawn twice is used twice as much."""

    brokers_per_topic: int = 3
    """Each has the same number of queues of it; with 1, nobody has another broker to send to."""

    zipf_exponent: float = 0.0
    """How unlike topics are: the n-th is drawn in proportion to 1 / n to the power of this; 0 = all alike."""

    refused_s: float = 0.001
    """How soon a send fails where nobody listens."""

    timeout_s: float = 3.0
    """How soon a send fails without any answer (sendMsgTimeout; RetryPolicy)."""

    def __post_init__(self) -> None:
        check_number("sends_per_s", self.sends_per_s, 0, 1e6)
        check_count("topics_per_client", self.topics_per_client, 1, 1_000)
        check_count("brokers_per_topic", self.brokers_per_topic, 1, 1_000)
        check_number("zipf_exponent", self.zipf_exponent, 0, 5)
        check_number("refused_s", self.refused_s, 0, 10)
        check_number("timeout_s", self.timeout_s, 0.001, 3_600)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """A fleet, what happens to it, and the systems that are compared on the same faults; raises BadOption."""

    brokers: int = 100
    """Masters, each with an agent of its own."""

    topics: int = 10_000
    """Each begins at a broker drawn at random and goes on in even steps around the ring of all brokers."""

    clients: int = 10_000
    """Processes, each with routes and a fault memory of its own."""

    hours: float = 24.0
    """The simulated time; a fault that begins within it is played to its end."""

    seed: int = 1
    """The same seed gives the same answer, however the work is shared out."""

    traffic: Traffic = field(default_factory=Traffic)
    """What each client does."""

    faults: FaultModel = field(default_factory=FaultModel)
    """What happens to brokers and to the store."""

    systems: tuple[System, ...] = SYSTEMS
    """What is compared; each meets the same faults, and does not depend on the others."""

    def __post_init__(self) -> None:
        check_count("brokers", self.brokers, 1, 1_000_000)
        check_count("topics", self.topics, 1, 100_000_000)
        check_count("clients", self.clients, 1, 100_000_000)
        check_number("hours", self.hours, 0.001, 8_784)
        check_count("seed", self.seed, 0, 2**63 - 1)
        if not isinstance(self.traffic, Traffic):
            raise BadOption(f"traffic: expected a Traffic, got {self.traffic!r}")
        if not isinstance(self.faults, FaultModel):
            raise BadOption(f"faults: expected a FaultModel, got {self.faults!r}")
        if self.traffic.brokers_per_topic > self.brokers:
            raise BadOption(
                f"brokers_per_topic: {self.traffic.brokers_per_topic} is more than brokers: {self.brokers}"
            )
        self._check_systems()
        self._check_size()

    def _check_systems(self) -> None:
        if not self.systems or not all(isinstance(one, NameServers | SharedRoutes) for one in self.systems):
            raise BadOption("systems: expected at least one of NameServers and SharedRoutes")
        if len({system.name for system in self.systems}) < len(self.systems):
            raise BadOption("systems: two have the same name")
        for system in self.systems:
            faults = system.faults
            if faults and faults.consecutive_failures and faults.base_isolation_s < self.traffic.timeout_s:
                raise BadOption(
                    f"base_isolation_s: {faults.base_isolation_s} of {system.name} is less than timeout_s: "
                    f"{self.traffic.timeout_s}"
                )

    def _check_size(self) -> None:
        rate = sum(self.faults.of(kind).per_hour for kind in KINDS)
        faults = rate * self.brokers * self.hours
        if faults > _MOST_FAULTS:
            raise BadOption(
                f"faults: some {faults:,.0f} of them are more than {_MOST_FAULTS:,}; fewer brokers, hours or "
                "per_hour"
            )
        touched = rate * self.hours * self.clients * self.traffic.topics_per_client
        touched *= self.traffic.brokers_per_topic
        if touched > _MOST_TOUCHED:
            raise BadOption(
                f"clients: they would meet faults some {touched:,.0f} times, the most is "
                f"{_MOST_TOUCHED:,.0f}; fewer clients, topics_per_client, hours or per_hour"
            )
        for kind in KINDS:
            if self.faults.of(kind).mean_s * self.clients > _MOST_CLIENT_S:
                raise BadOption(
                    f"mean_s: {self.faults.of(kind).mean_s} of {kind} is too long for so many clients"
                )
        if self.traffic.zipf_exponent and self.topics > _MOST_WEIGHTS:
            raise BadOption(f"topics: with a zipf_exponent there can be {_MOST_WEIGHTS:,} of them at most")

    @property
    def duration_s(self) -> float:
        """How long the simulated time is."""
        return self.hours * _HOURS_S

    def to_json(self) -> str:
        """Return all settings as a JSON object; a system has its kind in `registry`."""
        data = dataclasses.asdict(self)
        data["systems"] = [
            {"registry": _registry(system), **dataclasses.asdict(system)} for system in self.systems
        ]
        return orjson.dumps(data).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> FleetConfig:
        """Return the settings of a JSON object, which may leave any of them out; raises BadOption."""
        try:
            data = orjson.loads(text)
        except ValueError as error:
            raise BadOption(f"the configuration of a fleet is no JSON: {error}") from None
        found = _fields("fleet", cls, data)
        if "traffic" in found:
            found["traffic"] = Traffic(**_fields("traffic", Traffic, found["traffic"]))
        if "faults" in found:
            faults = _fields("faults", FaultModel, found["faults"])
            found["faults"] = FaultModel(
                **{name: Happening(**_fields(name, Happening, value)) for name, value in faults.items()}
            )
        if "systems" in found:
            if not isinstance(found["systems"], list):
                raise BadOption("systems: expected a list")
            found["systems"] = tuple(_system(data) for data in found["systems"])
        return cls(**found)


def _registry(system: System) -> str:
    return "rocketmq" if isinstance(system, NameServers) else "sharedroutes"


def _system(data: object) -> System:
    if not isinstance(data, dict) or data.get("registry") not in ("rocketmq", "sharedroutes"):
        raise BadOption(f"systems: {data!r} has no registry that is rocketmq or sharedroutes")
    kind: type[NameServers | SharedRoutes]
    kind = NameServers if data["registry"] == "rocketmq" else SharedRoutes
    found = _fields("systems", kind, {key: value for key, value in data.items() if key != "registry"})
    if found.get("faults") is not None:
        found["faults"] = ClientFaults(**_fields("faults", ClientFaults, found["faults"]))
    return kind(**found)


def _fields(what: str, kind: type, data: object) -> dict[str, Any]:
    """Return a JSON object whose keys are settings of `kind`; raises BadOption."""
    known = [item.name for item in dataclasses.fields(kind)]
    if not isinstance(data, dict):
        raise BadOption(f"{what}: expected an object with {', '.join(known)}, got {data!r}")
    unknown = sorted(data.keys() - set(known))
    if unknown:
        raise BadOption(f"{what}: there is no setting {unknown[0]!r}, only {', '.join(known)}")
    return dict(data)
