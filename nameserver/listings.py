"""Answers that list brokers, topics, members; each body is made once for each state of the table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ..daemon.threads import in_thread_if
from ..registry import AsyncRouteStore, TopicKind, plans
from ..registry.codec import OF_NO_TABLE
from ..registry.model import Change
from ..remoting import RemotingCommand, RequestCode, ResponseCode, response_to
from . import answers, header
from .config import Current

_MANY: Final = 2_000
"""Lists from this length on are written in a thread, so that nobody waits for them."""

_MOST_MADE: Final = 1_000
"""Lists that are kept: anybody may ask for clusters that do not exist."""

_KEPT_S: Final = 10.0
"""A list is kept for so long: no change tells of what is put right by `rebuild`, or by hand."""

_NOT_CLEARED: Final = "not set any response code"
"""What RocketMQ 5 says with every answer to GET_BROKER_MEMBER_GROUP, also when all is well."""

_KINDS: Final = {
    RequestCode.GET_UNIT_TOPIC_LIST: TopicKind.UNIT,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: TopicKind.UNIT_SUB,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: TopicKind.UNIT_SUB_NOT_UNIT,
}


class Listings:
    """What a front answers to requests that list."""

    def __init__(self, store: AsyncRouteStore, current: Current) -> None:
        self._store = store
        self._current = current
        self._made: dict[tuple[int, str | None], tuple[asyncio.Future[bytes], float]] = {}
        """Each with the time of the loop until which it is kept."""

    def changed(self, change: Change | None) -> None:
        """Throw away what a change makes wrong; None = nobody knows what has changed."""
        if change is None or change.kind not in OF_NO_TABLE:
            self._made.clear()

    async def answer(self, request: RemotingCommand) -> RemotingCommand:
        """Return the answer to a request that lists."""
        code = request.code
        if code == RequestCode.GET_BROKER_MEMBER_GROUP:
            return await self._member_group(request)
        if not self._is_allowed(code):
            return response_to(request, ResponseCode.SYSTEM_ERROR, remark="disable")
        cluster = header.text(request, "cluster") if code == RequestCode.GET_TOPICS_BY_CLUSTER else None
        body = await self._body(code, cluster)
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def _is_allowed(self, code: int) -> bool:
        if code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return self._current.config.enable_all_topic_list
        of_some = code in _KINDS or code == RequestCode.GET_TOPICS_BY_CLUSTER
        return self._current.config.enable_topic_list or not of_some

    async def _body(self, code: int, cluster: str | None) -> bytes:
        """Return the body that was made since the last change, and lately; one caller makes it, all wait."""
        now_s = asyncio.get_running_loop().time()
        made, until_s = self._made.get((code, cluster), (None, 0.0))
        if made is None or until_s <= now_s:
            if len(self._made) >= _MOST_MADE:
                self._made.clear()
            made = asyncio.ensure_future(self._make(code, cluster))
            self._made[code, cluster] = made, now_s + _KEPT_S
            made.add_done_callback(lambda done: self._keep_if_good(done, code, cluster))
        return await asyncio.shield(made)

    def _keep_if_good(self, made: asyncio.Future[bytes], code: int, cluster: str | None) -> None:
        failed = made.cancelled() or made.exception() is not None
        known, _ = self._made.get((code, cluster), (None, 0.0))
        if failed and known is made:
            del self._made[code, cluster]

    async def _make(self, code: int, cluster: str | None) -> bytes:
        if code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return answers.cluster_info(await self._store.cluster_info())
        if code == RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
            return await self._system_topics()
        topics = await self._store.topics(cluster, _KINDS.get(RequestCode(code), TopicKind.ALL))
        return await _written(topics)

    async def _system_topics(self) -> bytes:
        listing = await self._store.run(plans.system_topics(self._store.keys))
        brokers = await self._store.brokers()
        address = next((one.broker_addrs[one.min_broker_id] for one in brokers if one.broker_addrs), None)
        return await _written(listing.found, address)

    async def _member_group(self, request: RemotingCommand) -> RemotingCommand:
        cluster, name = header.text(request, "clusterName"), header.text(request, "brokerName")
        group = await self._store.member_group(name)
        body = answers.member_group(cluster, name, group.broker_addrs if group else {})
        return response_to(request, ResponseCode.SUCCESS, body=body, remark=_NOT_CLEARED)


def _written(topics: Iterable[str], address: str | None = None) -> Awaitable[bytes]:
    names = [*topics]
    make: Callable[[], bytes] = lambda: answers.topic_list(names, address)  # noqa: E731 - mypy wants its type
    return in_thread_if(len(names) > _MANY, make)
