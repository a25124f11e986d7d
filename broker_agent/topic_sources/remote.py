"""Topics from the running broker: asked for again and again, and read only when they have changed."""

from __future__ import annotations

import hashlib
import logging
import random
from asyncio import Event
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ...daemon.threads import in_thread, in_thread_if, trim_memory
from ...registry import QueueMapping
from ...remoting import RemotingCommand, RequestCode, fastjson, request
from ...remoting.broker.client import (
    Access,
    BrokerAnswerUnusable,
    BrokerCallError,
    BrokerClient,
    BrokerTimeout,
    BrokerUnreachable,
    BrokerUntrusted,
    poll,
)
from ..rocketmq.topics import (
    LARGE_BYTES,
    TopicsInvalid,
    TopicsReader,
    TopicTable,
    briefly,
    mappings_at,
    shown,
    version_at,
)
from .source import ReadTopics

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_CODE: Final = RequestCode.GET_ALL_TOPIC_CONFIG
_PAGE_TOPICS: Final = 2_000
"""The most that a broker answers at once (RocketMQ: splitMetadataSize)."""

_BEYOND: Final = 2**31 - 1
"""A place after the last topic: only the versions are answered, if the topics have the named one."""

_MOST_STARTS: Final = 10
_RETRY_S: Final = (0.1, 0.2)
_MOST_DOUBLINGS: Final = 5
_BYTES_A_S: Final = 500_000
"""So much is read at rest. A broker without pages, as of 5.3.3, answers with all its topics each time: to
write and to read so much takes less than 0.5 % of a CPU here and there; 10,000 topics are 2 MB."""


@dataclass(frozen=True, slots=True)
class _Page:
    topics: Mapping[str, Any] = field(repr=False)
    mappings: object = field(repr=False)
    versions: tuple[Mapping[str, Any], Any]
    """Of the topics and of the mappings, as the broker writes them."""

    total: int | None
    """How many topics there are; None = this page has them all."""

    @property
    def is_whole(self) -> bool:
        """Whether this page has all the topics."""
        return self.total is None or len(self.topics) >= self.total


@dataclass(frozen=True, slots=True)
class _Held:
    """What was read last."""

    table: TopicTable
    mappings: Mapping[str, QueueMapping]
    versions: tuple[Mapping[str, Any], Any]


class RemoteTopics:
    """Follows the topics of a broker by asking it (RocketMQ: GET_ALL_TOPIC_CONFIG).

    `silence` is the level at which it is logged that the broker does not answer.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        recheck_s: float = 1.0,
        deadline_s: float = 3.0,
        rng: random.Random | None = None,
        silence: int = logging.ERROR,
        access: Access | None = None,
    ) -> None:
        self._access = access
        self._address = host, port
        self._recheck_s, self._deadline_s = recheck_s, deadline_s
        self._rng = rng or random.Random()
        self._silence = silence
        self._held: _Held | None = None
        self._digest = b""
        """Of the last answer that showed that nothing has changed, or what has."""

        self._rest_s = recheck_s
        self._trouble = ""
        self._trouble_level = logging.ERROR
        self._failures = 0
        self._woken = Event()

    @property
    def trouble(self) -> str:
        """Why not all topics of the broker are known; empty = they are, or it cannot be reached."""
        odd = self._held.table.odd if self._held else ()
        return self._trouble or (f"{self._name}: {briefly(odd, '; ')}" if odd else "")

    async def found(self) -> AsyncGenerator[ReadTopics, None]:
        """Yield the topics from the broker's first answer on, at each answer; log each trouble once.

        That the broker cannot be reached, or not trusted, is no such trouble: it is logged elsewhere.
        """
        answers = poll(
            self._address,
            self._now,
            rest_s=lambda: self._rest_s,
            retry_s=self._retry_s,
            deadline_s=self._deadline_s,
            access=self._access,
            woken=self._woken,
        )
        async with aclosing(answers):
            async for answer in answers:
                if isinstance(answer, BrokerCallError):
                    self._failed(answer)
                else:
                    self._answered(answer)
                if self._held is not None:
                    yield ReadTopics(self._held.table, self._held.mappings)

    def wake(self) -> None:
        """Ask at once: the broker is up."""
        self._failures = 0
        self._woken.set()

    def move(self, host: str, port: int) -> None:
        """Ask the broker at another address, from the next run of `found` on."""
        self._address = host, port
        self._failures = 0

    @property
    def _name(self) -> str:
        host, port = self._address
        return f"{host}:{port}"

    def _retry_s(self, _: BrokerCallError) -> float:
        doublings = min(self._failures, _MOST_DOUBLINGS)
        self._failures += 1
        return self._rng.uniform(*_RETRY_S) * (1 << doublings)

    def _answered(self, held: _Held) -> None:
        known, odd = self._held.table.odd if self._held else (), held.table.odd
        self._held, self._failures = held, 0
        if self._trouble:
            self._trouble = ""
            level = min(logging.INFO, self._trouble_level)
            _LOG.log(level, "%s: its topics can be read again", self._name)
        if odd and odd != known:
            text = "%s: topics that stay as they were or are left out:\n  %s"
            _LOG.error(text, self._name, briefly(odd), extra={"problems": odd})
        elif odd != known:
            _LOG.info("%s: all its topics can be read again", self._name)

    def _failed(self, error: BrokerCallError) -> None:
        if isinstance(error, BrokerUnreachable | BrokerUntrusted) or str(error) == self._trouble:
            return
        self._trouble = str(error)
        self._trouble_level = self._silence if isinstance(error, BrokerTimeout) else logging.ERROR
        stays = f"keeping {self._held.table} read before" if self._held else "it is not registered yet"
        text = "%s: its topics cannot be read; %s:\n%s"
        _LOG.log(self._trouble_level, text, self._name, stays, self._trouble)

    async def _now(self, client: BrokerClient) -> _Held:
        """Return what the broker has by now; an answer that is the same as before is not even parsed."""
        held = self._held
        if held is None:
            return await self._read(client, None)
        answer = await self._ask(client, _BEYOND, 1, held.versions[0])
        digest = await in_thread_if(len(answer.body) > LARGE_BYTES, _digest, answer.body)
        if digest == self._digest:
            return held
        page = await self._parse(client, answer)
        if page.versions != held.versions:
            held = await self._read(client, page if page.is_whole else None)
        self._digest = digest
        return held

    async def _read(self, client: BrokerClient, first: _Page | None) -> _Held:
        """Return all that the broker has; `first` is its first page, if that has been answered already."""
        for _ in range(_MOST_STARTS):
            try:
                held = await self._read_once(client, first)
            except TopicsInvalid as error:
                raise BrokerAnswerUnusable(str(error)) from None
            first = None
            trim_memory()
            if held is not None:
                return held
        raise BrokerTimeout(
            f"{client.address}: {_CODE.name}: the topics changed while they were read, or are fewer than the "
            f"broker says, {_MOST_STARTS} times in a row"
        )

    async def _read_once(self, client: BrokerClient, first: _Page | None) -> _Held | None:
        """Return all that the broker has at one version; None = that changed, or a page is missing."""
        reader = TopicsReader(self._held.table if self._held else None)
        mappings: dict[str, QueueMapping] = {}
        page = first or await self._page(client, 0, _PAGE_TOPICS, None)
        versions, seen = page.versions, 0
        reader.read_version(versions[0])
        version_at("$.mappingDataVersion", versions[1], reader.problems)
        while page.versions == versions:
            await in_thread(_take, page, reader, mappings)
            seen += len(page.topics)
            if page.is_whole or seen >= (page.total or 0):
                return _Held(reader.table(), mappings, versions)
            if not page.topics:
                break
            page = await self._page(client, seen, _PAGE_TOPICS, versions[0])
        return None

    async def _page(
        self, client: BrokerClient, first: int, most: int, version: Mapping[str, Any] | None
    ) -> _Page:
        return await self._parse(client, await self._ask(client, first, most, version))

    async def _ask(
        self, client: BrokerClient, first: int, most: int, version: Mapping[str, Any] | None
    ) -> RemotingCommand:
        """Return so many topics from the one at `first` on; a broker without pages returns all of them."""
        fields = {
            "topicSeq": str(first),
            "maxTopicNum": str(most),
            "dataVersion": "" if version is None else orjson.dumps(version).decode(),
        }
        answer = await client.call(request(_CODE, fields), deadline_s=self._deadline_s)
        self._rest_s = max(self._recheck_s, len(answer.body) / _BYTES_A_S)
        return answer

    async def _parse(self, client: BrokerClient, answer: RemotingCommand) -> _Page:
        try:
            total = answer.ext_field("totalTopicNum")
            return await in_thread_if(len(answer.body) > LARGE_BYTES, _parsed, answer.body, total)
        except ValueError as error:
            raise BrokerAnswerUnusable(f"{client.address}: {_CODE.name}: {error}") from None


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body).digest()


def _parsed(body: bytes, total: str | None) -> _Page:
    """Return the page; raises ValueError for what is none."""
    page = fastjson.loads(body)
    if not isinstance(page, dict):
        raise ValueError(f"expected an object, got {shown(page)}")  # noqa: TRY004 - the answer is wrong, not us
    for name in ("topicConfigTable", "dataVersion"):
        if not isinstance(page.get(name), dict):
            raise ValueError(f"$.{name}: expected an object, got {shown(page.get(name))}")  # noqa: TRY004
    if total is not None and not total.isdecimal():
        raise ValueError(f"totalTopicNum: {total!r} is not a whole number")
    return _Page(
        topics=page["topicConfigTable"],
        mappings=page.get("topicQueueMappingDetailMap") or {},
        versions=(page["dataVersion"], page.get("mappingDataVersion")),
        total=None if total is None else int(total),
    )


def _take(page: _Page, reader: TopicsReader, mappings: dict[str, QueueMapping]) -> None:
    for key, value in page.topics.items():
        reader.read_topic(key, value)
    mappings |= mappings_at("$.topicQueueMappingDetailMap", page.mappings, reader.problems)
