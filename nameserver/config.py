"""What an operator may decide about how a front answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from ..daemon.option import PREFIX, option, options_of

T = TypeVar("T")

DEFAULT_HEARTBEAT_TIMEOUT_MS: Final = 120_000
"""Of brokers that name none (RocketMQ: DEFAULT_BROKER_CHANNEL_EXPIRED_TIME)."""

FRONT_PREFIX: Final = f"{PREFIX}NAMESERVER_"
"""The prefix of the variables that no other part of sharedroutes reads."""


class WhenStale(StrEnum):
    """What a front answers about routes while it does not hear of changes."""

    SERVE = "serve"
    """The last known route, however old."""

    ASK = "ask"
    """What the store says; the last known route if it says nothing."""

    REFUSE = "refuse"
    """An error, so that clients ask another front."""


def setting(default: T, meaning: str, **rest: Any) -> T:
    """Return a dataclass field that is a setting of the front; `rest` as for `declare`."""
    return option(default, meaning, **{"prefix": FRONT_PREFIX, **rest})


def switch(meaning: str, original: str = "", *, default: bool = False) -> bool:
    """Return a field that is true or false; one with RocketMQ's name may be changed while the front runs."""
    return setting(default, meaning, original=original, is_live=bool(original))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontConfig:
    """How a front answers; raises InvalidInput for values that do not fit."""

    read_only: bool = switch("Refuse requests that change something, those of brokers too")
    update_config: bool = switch(
        "Let `mqadmin updateNamesrvConfig` change those settings with a name of RocketMQ that are true or "
        "false. Until a restart"
    )
    when_stale: WhenStale = setting(
        WhenStale.SERVE,
        "What is answered about routes while the front hears of no changes, as without Redis. `serve` = the "
        "last known route, however old; `ask` = what the store says, or the last known route if it says "
        "nothing; `refuse` = an error, so that clients ask another front",
        choices=tuple(WhenStale),
    )
    stale_s: float = setting(5.0, "Age, since it was confirmed, from which a route counts as stale", low=0.1)
    hang_check_s: float = setting(
        5.0,
        "How often a broker without an agent is asked whether it works. 0 = never: its heartbeats, and its "
        "open connection, are enough",
    )
    hang_deadline_s: float = setting(1.0, "Longest wait for its answer", low=0.05)
    hang_failures: int = setting(
        3,
        "Times in a row without an answer after which the broker is taken out",
        unit="times",
        low=1,
        high=100,
    )
    support_acting_master: bool = switch(
        "Name in routes the slave that stands in for a lost master as the master", "supportActingMaster"
    )
    order_message_enable: bool = switch(
        "Add to routes the order configuration of their topic", "orderMessageEnable"
    )
    return_order_topic_config: bool = switch(
        "Answer a registration with all order configurations", "returnOrderTopicConfigToBroker", default=True
    )
    notify_min_broker_id_changed: bool = switch(
        "Tell brokers of a new lowest id in their group", "notifyMinBrokerIdChanged"
    )
    enable_topic_list: bool = switch(
        "List the topics of a cluster, and those with a unit flag", "enableTopicList", default=True
    )
    enable_all_topic_list: bool = switch("List all topics", "enableAllTopicList", default=True)
    delete_topic_with_registration: bool = switch(
        "Remove topics that a registration lacks. For brokers that always register all their topics at once",
        "deleteTopicWithBrokerRegistration",
    )

    def __post_init__(self) -> None:
        for one in FRONT_OPTIONS:
            one.check(getattr(self, one.attribute))


@dataclass(slots=True)
class Current:
    """The settings of a front at the moment: some can be changed while it runs."""

    config: FrontConfig
    order_configs: Mapping[str, str] | None = None
    """What operators have set of the queues of ordered topics; None = nobody ever has."""


FRONT_OPTIONS: Final = tuple(options_of(FrontConfig))
