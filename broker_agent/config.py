"""The settings of a broker agent; units are in the names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from ..registry import MASTER_ID, Broker, InvalidInput, RegistryConfig
from ..registry.checks import check_address, check_int, check_seconds
from .broker_conf import BrokerConf

__all__ = ["AgentConfig"]

_DEFAULT_URL: Final = "redis://127.0.0.1:6379/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What one agent does for one broker; raises InvalidInput for values that do not fit together."""

    broker: Broker
    topics_path: Path
    """The broker's topics.json; for a slave it is not read: slaves bring no topics."""

    broker_permission: int = 6
    """What the broker as a whole permits (RocketMQ: brokerPermission)."""

    broker_conf_path: Path | None = None
    """The broker.conf to follow: the agent takes over a changed brokerPermission."""

    probe: str = ""
    """host:port at which the agent watches whether the broker lives; by default the advertised address."""

    redis_url: str = field(default=_DEFAULT_URL, repr=False)  # may hold a password
    registry: RegistryConfig = field(default_factory=RegistryConfig)

    heartbeat_s: float = 5.0
    """Between two renewals of the lease; half of the lease TTL at most, so that one may be lost."""

    recheck_s: float = 1.0
    """Between two looks at topics.json besides the notifications of the file system."""

    probe_deadline_s: float = 1.0
    """The longest wait for a connection to the broker."""

    probe_attempts: int = 3
    """So many connections in a row have to fail, other than by being refused, until the broker is gone."""

    stop_deadline_s: float = 1.0
    """The longest wait for the store when the agent ends; after it the lease ends by its TTL."""

    def __post_init__(self) -> None:
        check_int("broker_permission", self.broker_permission, 0, 7)
        check_int("probe_attempts", self.probe_attempts, 1, 1_000)
        check_address("probe", self.probe_address)
        for name in ("heartbeat_s", "recheck_s", "probe_deadline_s", "stop_deadline_s"):
            check_seconds(name, getattr(self, name), 0.01)
        ttl_s, deadline_s = self.registry.lease_ttl_s, self.registry.call_deadline_s
        if ttl_s < 2 * self.heartbeat_s:
            raise InvalidInput(
                f"lease_ttl_s: {ttl_s} is less than twice heartbeat_s ({self.heartbeat_s}): one lost "
                "heartbeat would take the broker away"
            )
        if ttl_s < self.heartbeat_s + deadline_s:
            raise InvalidInput(
                f"lease_ttl_s: {ttl_s} is less than heartbeat_s + call_deadline_s ({self.heartbeat_s} + "
                f"{deadline_s}): one slow answer would take the broker away"
            )

    @classmethod
    def for_broker(cls, conf: BrokerConf, *, topics_path: Path | None = None, **settings: Any) -> Self:
        """Return the settings for the broker of a broker.conf; raises InvalidInput.

        Without `topics_path` the broker's own topics.json is followed.
        """
        reads_topics = conf.broker.broker_id == MASTER_ID
        if reads_topics and conf.topics_elsewhere and topics_path is None:
            raise InvalidInput(
                f"{conf.topics_elsewhere}: this broker keeps its topics in RocksDB, not in "
                f"{conf.topics_path}; name a file that follows them (--topics)"
            )
        return cls(
            broker=conf.broker,
            topics_path=topics_path or conf.topics_path,
            broker_permission=conf.broker_permission,
            **settings,
        )

    @property
    def probe_address(self) -> str:
        """Where the agent watches the broker: host:port."""
        return self.probe or self.broker.address
