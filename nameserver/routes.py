"""Answers about routes: ready bytes for topics that are known, kept fresh by a route client."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final, NamedTuple

from ..client import AsyncRouteClient, NoRoute, Route
from ..registry import AsyncRouteStore, InvalidInput, StoreUnavailable
from ..registry.model import MASTER_ID, BrokerData, TopicRoute
from ..remoting import (
    FrameTemplate,
    RemotingCommand,
    RequestCode,
    ResponseCode,
    SerializeType,
    encode,
    response_to,
)
from . import answers, header
from .answers import Dialect
from .config import Current, FrontConfig, WhenStale

_MISSING_KEPT: Final = 10_000
"""Topics that nobody has and somebody asks for: more are forgotten again, the longest unasked first."""

_SUCCESS: Final = FrameTemplate(response_to(RemotingCommand(code=0), ResponseCode.SUCCESS))

_OPAQUE: Final = b'"opaque":'
_MOST_OPAQUE: Final = (1 << 31) - 1
_MOST_REPEATED: Final = 20_000
"""Requests that differ in more than their opaque; with more, all are learned anew."""

_FAQ: Final = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"


@dataclass(slots=True)
class _Ready:
    """The bodies of one route; made when first asked for."""

    generation: int
    config: FrontConfig
    order_conf: str | None
    bodies: dict[Dialect, bytes] = field(default_factory=dict)


class _Repeated(NamedTuple):
    """What a request asks for that clients repeat."""

    topic: str
    dialect: Dialect


class RouteAnswers:
    """What a front answers to GET_ROUTEINFO_BY_TOPIC."""

    def __init__(
        self,
        client: AsyncRouteClient,
        store: AsyncRouteStore,
        current: Current,
    ) -> None:
        self._client = client
        self._store = store
        self._current = current
        self._ready: dict[str, _Ready] = {}
        self._missing: OrderedDict[str, None] = OrderedDict()
        self._repeated: dict[tuple[bytes, bytes], _Repeated] = {}
        """By the bytes of the request before and after its opaque."""

    def learn(self, data: bytes, request: RemotingCommand) -> None:
        """Remember the bytes of a request that `quick_answer` may answer."""
        if request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return
        topic = header.optional(request, "topic")
        before, number, after = _around_opaque(data)
        is_plain = request.serialize_type is SerializeType.JSON and not request.flag
        if (
            topic is None
            or not is_plain
            or answers.zone_of(request) is not None
            or data.count(_OPAQUE) != 1  # another may be anything
            or number != b"%d" % request.opaque
            or request.opaque < 0
        ):
            return
        if len(self._repeated) >= _MOST_REPEATED:
            self._repeated.clear()
        self._repeated[before, after] = _Repeated(topic, Dialect.of(request))

    def quick_answer(self, data: bytes) -> bytes | None:
        """Return the answer to a request that was learned but for its opaque, if its bytes are ready."""
        before, number, after = _around_opaque(data)
        asked = self._repeated.get((before, after))
        if asked is None:
            return None
        route = self._client.known_route(asked.topic)
        ready = self._ready.get(asked.topic)
        if route is None or ready is None or not self._is_fresh(ready, route) or self._is_stale(route):
            return None
        body, opaque = ready.bodies.get(asked.dialect), int(number) if number.isdigit() else -1
        if body is None or opaque > _MOST_OPAQUE or b"%d" % opaque != number:
            return None
        return _SUCCESS.encode(opaque, body)

    def answer(self, request: RemotingCommand) -> bytes | Awaitable[RemotingCommand]:
        """Return the frame of the answer when the topic is known, else what becomes the answer."""
        topic = header.optional(request, "topic")
        if topic is None:
            return encode(_no_route(request, "null"))
        route = self._client.known_route(topic)
        if route is None or self._is_stale(route):
            return self._ask(request, topic, route)
        if answers.zone_of(request) is None:
            body = self._ready_body(route, Dialect.of(request))
            return _SUCCESS.encode(request.opaque, body)
        return encode(self._answered(request, route))

    async def _ask(self, request: RemotingCommand, topic: str, stale: Route | None) -> RemotingCommand:
        if stale is not None and self._current.config.when_stale is WhenStale.REFUSE:
            age = "of an earlier process" if stale.age_s is None else f"{stale.age_s:.0f} s old"
            remark = f"name server not ready: its routes are {age}, and it does not hear of changes"
            return response_to(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        try:
            route = await self._asked(topic, stale)
        except NoRoute:
            self._note_missing(topic)
            return _no_route(request, topic)
        except InvalidInput:  # no topic can have this name
            return _no_route(request, topic)
        return self._answered(request, route)

    async def _asked(self, topic: str, stale: Route | None) -> TopicRoute:
        """Return what the store says now, or the last known route where it says nothing; raise NoRoute."""
        if stale is None:
            return await self._client.route(topic)
        try:
            found = await self._store.routes((topic,))
        except StoreUnavailable:
            return stale
        if topic not in found:
            raise NoRoute(topic, "no live broker holds")
        return found[topic]

    def _is_stale(self, route: Route) -> bool:
        if self._current.config.when_stale is WhenStale.SERVE:
            return False
        return route.as_of is None or monotonic() - route.as_of > self._current.config.stale_s

    def _answered(self, request: RemotingCommand, route: TopicRoute) -> RemotingCommand:
        body = self._body(route, Dialect.of(request), answers.zone_of(request))
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def _ready_body(self, route: Route, dialect: Dialect) -> bytes:
        ready = self._ready.get(route.topic)
        if ready is None or not self._is_fresh(ready, route):
            self._missing.pop(route.topic, None)
            order_conf = self._order_conf(route.topic)
            ready = self._ready[route.topic] = _Ready(route.generation, self._current.config, order_conf)
        body = ready.bodies.get(dialect)
        if body is None:
            body = ready.bodies[dialect] = self._body(route, dialect, None)
        return body

    def _is_fresh(self, ready: _Ready, route: Route) -> bool:
        if ready.generation != route.generation or ready.config is not self._current.config:
            return False
        return ready.order_conf == self._order_conf(route.topic)

    def _order_conf(self, topic: str) -> str | None:
        configs = self._current.order_configs
        return configs.get(topic) if configs else None

    def _body(self, route: TopicRoute, dialect: Dialect, zone: str | None) -> bytes:
        config = self._current.config
        if not config.support_acting_master:
            route = _with_own_ids(route)
        order_conf = self._order_conf(route.topic) if config.order_message_enable else None
        return answers.route(route, dialect, order_topic_conf=order_conf, zone=zone)

    def _note_missing(self, topic: str) -> None:
        self._ready.pop(topic, None)
        self._missing[topic] = None
        self._missing.move_to_end(topic)
        if len(self._missing) > _MISSING_KEPT:
            oldest, _ = self._missing.popitem(last=False)
            self._client.forget((oldest,))


def _around_opaque(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the opaque of a JSON header as it is written, and what stands before and after it."""
    before, _, rest = data.partition(_OPAQUE)
    number, _, after = rest.partition(b",")
    return before, number, after


def _with_own_ids(route: TopicRoute) -> TopicRoute:
    """Return a route in which slaves that stand in for their master have their own ids."""
    if all(broker.acting_id is None for broker in route.broker_datas):
        return route
    brokers = tuple(_with_own_id(broker) for broker in route.broker_datas)
    return TopicRoute(route.topic, route.queue_datas, brokers)


def _with_own_id(broker: BrokerData) -> BrokerData:
    if broker.acting_id is None:
        return broker
    addresses = {broker.acting_id if of == MASTER_ID else of: at for of, at in broker.broker_addrs.items()}
    return replace(broker, broker_addrs=addresses, acting_id=None)


def _no_route(request: RemotingCommand, topic: str) -> RemotingCommand:
    remark = f"No topic route info in name server for the topic: {topic}\nSee {_FAQ} for further details."
    return response_to(request, ResponseCode.TOPIC_NOT_EXIST, remark=remark)
