"""Plans that are looked at, or cut short, while a store runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

import redis

from sharedroutes.registry import scripts
from sharedroutes.registry.plans import Batch, Call, Plan, Reply
from sharedroutes.registry.scripts import PUT_TOPICS
from tests.fix_redis import Store
from tests.support import await_until

T = TypeVar("T")

SCRIPTS: Final = tuple(value for value in vars(scripts).values() if isinstance(value, scripts.Script))
"""All scripts that there are."""


class Crash(Exception):
    """The process that ran the plan died."""


def one_by_one(plan: Plan[T]) -> Plan[T]:
    """Run a plan with each call as a batch of its own, also those that it sends together."""
    try:
        batch = next(plan)
        while True:
            replies: list[Reply] = []
            calls = (batch, *batch.following) if isinstance(batch, Call) else ()
            for call in calls:
                replies += yield replace(call, following=())
            batch = plan.send(replies if calls else (yield batch))
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        plan.close()


def observed(plan: Plan[T], look: Callable[[Batch], None]) -> Plan[T]:
    """Run a plan and call `look` with each batch, and each call, when its replies are there."""
    plan = one_by_one(plan)
    try:
        batch = next(plan)
        while True:
            replies = yield batch
            look(batch)
            batch = plan.send(replies)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        plan.close()


def recorded(plan: Plan[T], batches: list[Batch]) -> Plan[T]:
    """Run a plan and append to `batches` what it sends."""
    return observed(plan, batches.append)


def interrupted(plan: Plan[T], after: int) -> Plan[T]:
    """Run a plan and raise Crash when the store has done `after` batches."""
    batches: list[Batch] = []

    def count(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == after:
            raise Crash

    return observed(plan, count)


def puts(batches: list[Batch]) -> list[list[str]]:
    """Return the keys of the topics that each script call among the batches writes or removes."""
    calls = [batch for batch in batches if isinstance(batch, Call) and batch.script is PUT_TOPICS]
    return [[key.rpartition(":topic:")[2] for key in call.keys[4:]] for call in calls]


def dump(admin: redis.Redis, *, but: str = "") -> dict[str, bytes | None]:
    """Return all that a server holds without its TTLs, to see that something changed nothing."""
    return {key.decode(): admin.dump(key) for key in admin.scan_iter(count=1_000) if key != but.encode()}


@contextmanager
def unchanged(admin: redis.Redis, *, but: str = "") -> Iterator[None]:
    """Assert that a server holds the same at the end as at the beginning, whatever the TTLs."""
    before = dump(admin, but=but)
    yield
    assert dump(admin, but=but) == before


def clock_ms(admin: redis.Redis) -> int:
    """Return the server's time, ms since 1970."""
    seconds, microseconds = admin.time()
    return seconds * 1_000 + microseconds // 1_000


async def addresses(store: Store, topic: str = "t0") -> set[str | None]:
    """Return the addresses of the masters in the route of a topic."""
    routes = await store.routes([topic])
    return {data.master_address for data in routes[topic].broker_datas} if routes else set()


async def lease_ended(store: Store, admin: redis.Redis, broker_id: int = 0, name: str = "broker-a") -> None:
    """Await the end of the lease of a replica."""
    lease = store.keys.lease(name, broker_id)
    await await_until(lambda: not admin.exists(lease), description=f"{lease} ends")


def one_batch(batch: Batch) -> Plan[list[Any]]:
    """Send one batch, and return its replies."""
    return (yield batch)


async def paused_before(
    store: Store, plan: Plan[Any], script: scripts.Script, batch: Batch | None = None
) -> Batch:
    """Run a plan, from a batch on, until its next batch is a call of a script."""
    batch = batch or next(plan)
    while not (isinstance(batch, Call) and batch.script is script):
        batch = plan.send(await store.run(one_batch(batch)))
    return batch
