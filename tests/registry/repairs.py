"""What the tests of verify, rebuild, forget, export and import share."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Final

from sharedroutes.registry import Broker, TopicConfig, scripts
from sharedroutes.registry.plans.repair.differences import Difference
from tests.fix_redis import Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, topics


async def everything(given: Any) -> list[Any]:
    """Return all that an iterator of one store or the other gives."""
    if inspect.isawaitable(given):
        return await asyncio.to_thread(list, await given)
    return [item async for item in given]


async def differences(store: Store) -> list[Difference]:
    """Return what verify finds."""
    return await everything(store.admin.verify())


async def register_two(store: Store) -> None:
    """Register broker-a with t0, t1, t2 and a slave, broker-b with t0, t1, and put a key."""
    ordered = TopicConfig("t2", 8, 8, order=True, attributes={"message.type": "FIFO"})
    await store.register(Broker("broker-a", ADDRESS, 0, "cluster-1"), [*topics(2), ordered])
    await store.register(Broker("broker-a", "10.0.0.9:10911", 1, "cluster-1"), [])
    await store.register(Broker("broker-b", OTHER_ADDRESS, 0, "cluster-1"), topics(2, queues=2))
    await store.kv.put("ns", "key", "value")


REPAIR_SCRIPTS: Final = frozenset(
    {
        scripts.FORGET,
        scripts.MEND_FIELD,
        scripts.MEND_KEY,
        scripts.MEND_LEASE,
        scripts.MEND_LISTING,
        scripts.MEND_ROWS,
        scripts.MEND_SCHEMA,
        scripts.ODD_KEYS,
        scripts.SNAPSHOT,
    }
)
"""What only verify, rebuild, forget and import run."""
