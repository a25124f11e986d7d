"""Ready settings: our own, and what RocketMQ's producers do; docs/client.md has the differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from .attempts.policy import ROCKETMQ_4_POLICY, ROCKETMQ_POLICY, RetryPolicy
from .config import ClientConfig
from .faults import LADDER, LADDER_4, FaultConfig

_FAULTS: Final = FaultConfig(
    enabled=False,  # sendLatencyFaultEnable, sendLatencyEnable
    rules="rocketmq-5",
    ladder=LADDER,
    consecutive_failures=0,
    min_success_rate=0.0,
    slow_start_s=0.0,
    max_isolated_share=None,
    detect=False,  # startDetectorEnable
    detect_interval_s=2.0,
    detect_timeout_s=0.2,
)
_ROCKETMQ_5: Final = ClientConfig(
    refresh_s=30.0,  # pollNameServerInterval
    default_topic="TBW102",  # createTopicKey
    default_topic_queues=4,  # defaultTopicQueueNums
    faults=_FAULTS,
    policy=ROCKETMQ_POLICY,
)
_FAULTS_4: Final = replace(_FAULTS, rules="rocketmq-4", ladder=LADDER_4)
_ROCKETMQ_4: Final = replace(_ROCKETMQ_5, faults=_FAULTS_4, policy=ROCKETMQ_4_POLICY)


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings that belong together."""

    client: ClientConfig
    """For RouteClient.from_url; `dataclasses.replace` changes what is to differ."""

    callbacks: RetryPolicy = field(default_factory=RetryPolicy)
    """For `sending`; RocketMQ's asynchronous sends try no other broker after an answer with an error."""

    @property
    def policy(self) -> RetryPolicy:
        """The policy of attempts, which the client uses for those that have none of their own."""
        return self.client.policy


def _preset(client: ClientConfig, *, enabled: bool = False, detect: bool = False) -> Preset:
    changed = replace(client, faults=replace(client.faults, enabled=enabled, detect=detect))
    return Preset(changed, replace(client.policy, retry_codes=frozenset()))


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "sharedroutes": Preset(ClientConfig()),
        "rocketmq-4": _preset(_ROCKETMQ_4),
        "rocketmq-4-latency": _preset(_ROCKETMQ_4, enabled=True),
        "rocketmq-5": _preset(_ROCKETMQ_5),
        "rocketmq-5-latency": _preset(_ROCKETMQ_5, enabled=True),
        "rocketmq-5-detector": _preset(_ROCKETMQ_5, enabled=True, detect=True),
    }
)
"""RocketMQ 4.9.7 and 5.3.3 as they come; `-latency`: with fault tolerance; `-detector`: with a detector too.

Sources: DefaultMQProducer, ClientConfig, MQFaultStrategy, LatencyFaultToleranceImpl, TopicPublishInfo.
"""
