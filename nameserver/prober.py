"""The elected front asks brokers whether they live: those that hang are out, and back when they wake up."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing
from typing import Final

from ..registry import AsyncRouteStore, Broker, RegistryError, StoreUnavailable, plans
from ..registry.checks import split_address
from ..registry.concurrency_async import end
from ..registry.model import Change, ChangeKind
from ..registry.plans import fronts
from ..registry.plans.fronts import Ending
from ..remoting.broker.liveness import verdicts
from ..remoting.broker.probing import BrokerGone, Probing, Rules
from .config import Current
from .sessions import wait_for_end, wait_for_event

_LOG: Final = logging.getLogger("sharedroutes.nameserver")
_ROUND_S: Final = 0.5
"""How often what was found is acted upon."""

_READ_S: Final = 2.0
"""How often those that are to be asked are read, unless somebody comes."""

_READ_SHARE: Final = 0.05
"""Of the time at most: routes are answered on the same event loop, and a registry may have many brokers."""

_BEGUN_A_SECOND: Final = 250
_ATTEMPTS: Final = 3
_REMEMBERED_S: Final = 3_600.0
"""A broker that was taken out is asked for so long whether it is back; then it has to register."""


class _Asked:
    """One replica that is asked."""

    def __init__(
        self, broker: Broker, rules: Rules, rng: random.Random, *, begins_s: float = 0.0, speaks: bool = False
    ) -> None:
        self.broker = broker
        self.probing = Probing(rules, speaks=speaks)
        self.why = ""
        """Why it counts as gone; empty = it does not."""

        self.out_since_s: float | None = None
        """When it was taken out; None = it was not."""

        self.may_be_out = False
        """Whether it was to be taken out, and the answer has not come."""

        self._rules = rules
        self._rng = rng
        self._begins_s = begins_s
        self.task = asyncio.create_task(self._ask(), name=f"sharedroutes: asks {broker.address}")

    async def _ask(self) -> None:
        await asyncio.sleep(self._begins_s)
        host, port = split_address(self.broker.address)
        found = verdicts(host, port, self.probing, deadline_s=self._rules.deadline_s, rng=self._rng)
        async with aclosing(found):
            async for verdict in found:
                self.why = verdict.why if isinstance(verdict, BrokerGone) else ""

    @property
    def judged_ms(self) -> int:
        """How long ago the first request that it did not answer may have been sent."""
        return round(1_000 * (self._rules.failures * self._rules.deadline_s + _ROUND_S))

    @property
    def is_gone(self) -> bool:
        """Whether it does not answer, although it did: others are perhaps not to be reached from here."""
        return bool(self.why) and self.probing.speaks


class Prober:
    """Asks the brokers that fronts vouch for, while this front is the elected one."""

    def __init__(self, store: AsyncRouteStore, current: Current, rng: random.Random) -> None:
        self._store = store
        self._current = current
        self._rng = rng
        self._asked: dict[tuple[str, int], _Asked] = {}
        self._former: dict[tuple[str, int], tuple[Broker, float | None]] = {}
        """Those that had answered when this front was no longer elected, and when they were taken out."""

        self.is_elected = False
        """Whether this front is the one that speaks for all."""

        self._is_closed = False
        self._news_until_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def is_asking(self) -> bool:
        """Whether brokers are asked from here."""
        return self._task is not None

    def elect(self, *, is_elected: bool) -> None:
        """Begin to ask, go on, or stop."""
        self.is_elected = is_elected = is_elected and not self._is_closed
        if is_elected and self._current.config.hang_check_s and self._task is None:
            self._stopping = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._stopping), name="sharedroutes: prober")
        elif not is_elected and self._task is not None:
            self._stopping.set()
            self._task = None
            spoke = {of: one for of, one in self._asked.items() if one.probing.speaks}
            self._former |= {of: (one.broker, one.out_since_s) for of, one in spoke.items()}
            self._drop([*self._asked])

    def heard(self, change: Change) -> None:
        """Read soon who is to be asked: somebody has come."""
        if change.kind is ChangeKind.UP:  # which is announced a moment before it is vouched for
            self._news_until_s = asyncio.get_running_loop().time() + 2 * _ROUND_S

    def farewell(self, broker_name: str, address: str) -> None:
        """No longer wait for a replica that was taken out, and says that it ends."""
        for of, (broker, _) in self._former.items():
            if of[0] == broker_name and broker.address == address:
                self._former[of] = broker, None
        for of, one in [*self._asked.items()]:
            if of[0] == broker_name and one.broker.address == address and one.out_since_s is not None:
                self._drop([of])

    async def aclose(self) -> None:
        """Stop, for good: a beat may come yet that elects this front."""
        self._is_closed = True
        asking, task = [one.task for one in self._asked.values()], self._task
        self.elect(is_elected=False)
        await end(*asking)
        await wait_for_end(*([task] if task is not None else []))

    async def _run(self, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        rested_s = next_s = loop.time()
        while not stopping.is_set():
            try:
                began_s = loop.time()
                if began_s >= next_s or rested_s <= began_s < self._news_until_s:
                    brokers = await self._store.run(fronts.watched(self._store.keys))
                    if stopping.is_set():  # another front asks them now
                        return
                    self._take_up(brokers)
                    rested_s = began_s + (loop.time() - began_s) / _READ_SHARE
                    next_s = max(rested_s, began_s + _READ_S)
                for key, one in [*self._asked.items()]:
                    if self._asked.get(key) is one:  # perhaps it has said goodbye meanwhile
                        await self._act(one)
            except RegistryError as error:
                _LOG.debug("brokers are not asked now: %s", error)
            await wait_for_event(stopping, _ROUND_S)

    def _take_up(self, brokers: list[Broker]) -> None:
        """Ask those that are there now, and no more those that are not, but for those that were taken out."""
        there = {(broker.broker_name, broker.broker_id): broker for broker in brokers}
        addresses = {broker.address for broker in brokers}
        now_s = asyncio.get_running_loop().time()
        for key, one in [*self._asked.items()]:
            if one.may_be_out and key not in there:
                one.out_since_s = now_s
            one.may_be_out = False
            is_kept = key in there and there[key].address == one.broker.address
            is_awaited = one.out_since_s is not None and now_s - one.out_since_s < _REMEMBERED_S
            # Whoever has its address now is another broker, and what answers there is not the one that hung.
            if not is_kept and not (is_awaited and one.broker.address not in addresses and key not in there):
                self._drop([key])
        rules = self._rules()
        # Those that are asked first in one moment are asked in one moment ever after.
        spread_s = min(rules.check_s, len(there.keys() - self._asked.keys()) / _BEGUN_A_SECOND)
        for key, broker in there.items():
            asked = self._asked.get(key)
            if asked is None:
                begins_s = self._rng.uniform(0, spread_s)
                former, _ = self._former.pop(key, (None, None))
                speaks = former is not None and former.address == broker.address
                self._asked[key] = _Asked(broker, rules, self._rng, begins_s=begins_s, speaks=speaks)
            elif asked.out_since_s is not None:  # it has registered anew: its silence of before says nothing
                self._drop([key])
                self._asked[key] = _Asked(broker, rules, self._rng, speaks=True)
            else:
                asked.broker = broker
        for key, (broker, since_s) in self._former.items():
            self._former[key] = broker, None
            is_awaited = since_s is not None and now_s - since_s < _REMEMBERED_S
            if is_awaited and key not in self._asked and broker.address not in addresses:
                self._asked[key] = _Asked(broker, rules, self._rng, speaks=True)
                self._asked[key].out_since_s = since_s

    async def _act(self, one: _Asked) -> None:
        broker = one.broker
        if one.is_gone and one.out_since_s is None:
            why, judged_ms = f"does not answer: {one.why}", one.judged_ms
            plan = fronts.release(self._store.config, broker, (), Ending.DEAD, why, judged_ms=judged_ms)
            was_lost, one.may_be_out = one.may_be_out, True  # until that is answered
            ended = await self._store.run(plan)
            one.may_be_out = was_lost and not ended  # then it was ended by the call whose answer was lost
            if ended:
                one.out_since_s = asyncio.get_running_loop().time()
                _LOG.warning("%s:%d: taken out: %s", broker.broker_name, broker.broker_id, one.why)
        elif not one.why and one.out_since_s is not None and one.probing.alive:
            await self._bring_back(one)

    async def _bring_back(self, one: _Asked) -> None:
        broker, out_since_s = one.broker, one.out_since_s
        one.out_since_s = None
        try:
            config = self._store.config
            stays = plans.Rest.STAYS
            await self._store.run(
                plans.register(config, broker, {}, take_over=False, admit=False, joint=True, rest=stays)
            )
            await self._store.run(fronts.vouch(config, broker, "", anew=True))
        except StoreUnavailable:
            one.out_since_s = out_since_s  # it is tried again
            raise
        except (
            RegistryError
        ) as error:  # somebody else has it, or it has to stay out: it will say what it wants
            _LOG.info("%s:%d: answers again: %s", broker.broker_name, broker.broker_id, error)
        else:
            _LOG.info("%s:%d: answers again, and is back", broker.broker_name, broker.broker_id)

    def _drop(self, keys: list[tuple[str, int]]) -> None:
        for key in keys:
            self._asked.pop(key).task.cancel()

    def _rules(self) -> Rules:
        config = self._current.config
        return Rules(
            attempts=_ATTEMPTS,
            check_s=config.hang_check_s,
            deadline_s=config.hang_deadline_s,
            failures=config.hang_failures,
        )
