"""A plan that is under way on a registry, and how to see all that the registry holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sharedroutes.registry import (
    Broker,
    DataVersion,
    Registration,
    RegistryConfig,
    RegistryError,
    SeenLease,
    TopicConfig,
)
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import Batch, Call, Plan
from sharedroutes.registry.scripts import Script
from tests.registry.model_of_table import Answer

CONFIG: Final = RegistryConfig(lease_ttl_s=3_600, chunk_topics=2, sweeper_lease_s=3_600)
KEYS: Final = Keys(CONFIG.namespace)
TRIES: Final = 5
"""So often a registration finds another table than it expected before it gives up."""

# Everything in one call: keys with types and values, and how long strings live on.
PICTURE: Final = """
local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end
-- Redis 6.2 does not tell when a key ends, only how long it lasts, by a clock that goes on meanwhile.
local function ends_between(key)
  local ends = redis.pcall('PEXPIRETIME', key)
  if type(ends) == 'number' then return {ends, ends} end
  local before, left, after = now_ms(), redis.call('PTTL', key), now_ms()
  return left < 0 and {left, left} or {before + left, after + left}
end
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local value = ''
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'set' then value = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
  found[#found + 1] = {key, kind, value, ends_between(key)}
end
return found
"""


@dataclass(eq=False)
class Going:
    """A plan that is under way: one batch at a time, with other plans in between."""

    plan: Plan[Any]
    batch: Batch
    broker: Broker = field(default_factory=lambda: Broker("-", "-:1"))
    wanted: Mapping[str, TopicConfig] = field(default_factory=dict)
    version: DataVersion = field(default_factory=DataVersion)
    take_over: bool = False
    instead_of: SeenLease | None = None
    reason: str = ""
    held: Registration | None = None
    one_topic: bool = False
    """Whether it registers one topic, and no table."""

    former: frozenset[int] = frozenset()
    """Other ids of its address, when it last looked around."""

    seniors: frozenset[int] = frozenset()
    """The replicas before whom it has no say, alive or not, when it last looked around."""

    moves: int = 0
    """So often it found another table than it expected."""

    verdict: Answer = ()
    """The last answer of a script, or that it may not write."""

    result: Any = None
    error: RegistryError | None = None
    done: bool = False

    @property
    def is_known(self) -> bool:
        """Whether it registers again from the address that it had."""
        return self.held is not None and self.held.broker.address == self.broker.address

    def about_to(self, script: Script) -> bool:
        """Whether its next batch is a call of a script."""
        return isinstance(self.batch, Call) and self.batch.script is script
