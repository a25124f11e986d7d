"""`agent --check`: looks at the files, the store and the brokers as the agent would, and changes nothing."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ...registry import AsyncRouteStore, InvalidInput, RegistryError, plans
from ...registry.checks import split_address
from ...registry.keys import Keys
from ...registry.plans.registration import may_register
from ..config import AgentConfig, TopicsFrom
from ..daemon_threads import in_thread
from ..rocketmq.access import Access
from ..rocketmq.broker_client import BrokerCallError, BrokerClient, BrokerRefused, configuration
from ..rocketmq.topics import parse
from ..settings import SidecarConfig, masked

_ANSWER_S: Final = 3.0


class Check(StrEnum):
    """What can be looked at."""

    FILES = "files"
    """The configuration, every broker.conf, every topics.json, and what the agent shows its broker."""

    STORE = "store"
    """Whether it answers, and lets this user register the brokers."""

    BROKER = "broker"
    """Whether each broker takes connections, and answers where the agent needs its answers."""


class Outcome(StrEnum):
    """What came of a check."""

    OK = "ok"
    FAILED = "failed"
    LEFT_OUT = "left out"


class Result(NamedTuple):
    """One line of what is said."""

    check: Check
    outcome: Outcome
    text: str = ""

    def __str__(self) -> str:
        return f"{self.check:<6}  {self.outcome:<8}  {self.text}".rstrip()


def wanted(text: str) -> frozenset[Check]:
    """Return the checks that a list such as `files,store` names; raises InvalidInput."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in Check.__members__.values():
            raise InvalidInput(f"--check: {name!r} is none of {', '.join(Check)}")
    return frozenset(map(Check, names))


async def check(config: SidecarConfig | InvalidInput, checks: frozenset[Check]) -> list[Result]:
    """Return what was found, a line a check or a problem; a wrong configuration comes as its error."""
    if isinstance(config, InvalidInput):
        wrong = [Result(Check.FILES, Outcome.FAILED, line) for line in str(config).splitlines()]
        others = [one for one in Check if one is not Check.FILES]
        return wrong + [Result(one, Outcome.LEFT_OUT, "the files are wrong") for one in others]
    accesses = [Access(agent) for agent in config.agents]
    for access in accesses if checks - {Check.STORE} else ():
        await access.load()
    found: list[Result] = []
    for one, look in (
        (Check.FILES, partial(_files, config, accesses)),
        (Check.STORE, partial(_store, config)),
        (Check.BROKER, partial(_brokers, config, accesses)),
    ):
        found += await look() if one in checks else [Result(one, Outcome.LEFT_OUT)]
    return found


async def _files(config: SidecarConfig, accesses: Sequence[Access]) -> list[Result]:
    problems = [one.why for one in config.awaited]
    said = []
    for agent, access in zip(config.agents, accesses, strict=True):
        if access.problem:
            problems.append(f"{_name(agent)}: {access.problem}")
        path = agent.topics_path
        if path is None or agent.topics_from not in (TopicsFrom.FILES, TopicsFrom.AUTO):
            said.append("topics are asked from the broker")
            continue
        try:
            said.append(await in_thread(_topics, path, agent.topics_from))
        except InvalidInput as error:
            problems += [f"{path}: {line}" for line in str(error).splitlines()]
    if problems:
        return [Result(Check.FILES, Outcome.FAILED, problem) for problem in problems]
    names = ", ".join(f"{_name(one)} ({what})" for one, what in zip(config.agents, said, strict=True))
    count = f"{len(said)} broker{'s' if len(said) > 1 else ''}"
    return [Result(Check.FILES, Outcome.OK, f"{count}: {names}")]


def _topics(path: Path, source: TopicsFrom) -> str:
    """Return what a topics.json holds; raises InvalidInput when the agent could not use it."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise InvalidInput(f"is {kind}: the broker's topics.json is expected")
        table = parse(path.read_bytes())
    except FileNotFoundError:
        if source is TopicsFrom.AUTO:
            return f"no {path} yet: until there is one, the broker is asked"
        raise InvalidInput("there is no such file, and by topics_from nothing else is read") from None
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}") from None
    odd = f", {len(table.odd)} of them make no sense" if table.odd else ""
    return f"{len(table.topics)} topic{'' if len(table.topics) == 1 else 's'}{odd}"


async def _store(config: SidecarConfig) -> list[Result]:
    url, registry = masked(config.redis_url), config.registry
    store = AsyncRouteStore.from_url(config.redis_url, registry)
    try:
        for name, broker_id in _replicas(config):
            denied = await store.run(may_register(Keys(registry.namespace), name, broker_id))
            if denied:
                return [Result(Check.STORE, Outcome.FAILED, _denied(url, registry.namespace, denied[0]))]
    except RegistryError as error:
        return [Result(Check.STORE, Outcome.FAILED, f"{url}: {error}")]
    finally:
        await store.aclose()
    return [Result(Check.STORE, Outcome.OK, f"{url} answers, and lets this user register brokers")]


def _replicas(config: SidecarConfig) -> Iterable[tuple[str, int]]:
    """Return names and ids to ask for; some, where no broker.conf can be read."""
    return [(one.broker.broker_name, one.broker.broker_id) for one in config.agents] or [("any", 0)]


def _denied(url: str, namespace: str, denied: plans.ErrorReply) -> str:
    said = f"{url}: {denied.code} {denied.message}"
    if denied.code != "NOPERM":
        return said
    return f"{said}; `sharedroutes acl agent --namespace {namespace}` prints the line of a user that may"


async def _brokers(config: SidecarConfig, accesses: Iterable[Access]) -> list[Result]:
    found = await asyncio.gather(*map(_broker, config.agents, accesses))
    awaited = [
        Result(Check.BROKER, Outcome.LEFT_OUT, f"nobody knows where: {one.why}") for one in config.awaited
    ]
    return [*found, *awaited]


async def _broker(config: AgentConfig, access: Access) -> Result:
    """Look whether a broker is there, and whether it can be asked."""
    if access.problem:
        return Result(Check.BROKER, Outcome.FAILED, f"{_name(config)}: {access.problem}")
    host, port = split_address(config.probe_address)
    who = f"{_name(config)} at {config.probe_address}"
    try:
        connecting = BrokerClient.connect(host, port, deadline_s=config.probe_deadline_s, access=access)
        async with await connecting as client:
            try:
                await configuration(client, _ANSWER_S)
            except BrokerRefused as error:
                if access.trouble:  # it may want another user
                    return Result(Check.BROKER, Outcome.FAILED, access.trouble)
                return Result(Check.BROKER, Outcome.OK, f"{who} takes connections, and answers: {error}")
            except BrokerCallError as error:
                return _mute(config, who, error)
    except BrokerCallError as error:
        return Result(Check.BROKER, Outcome.FAILED, f"{_name(config)}: {error}")
    return Result(Check.BROKER, Outcome.OK, f"{who} takes connections, and answers")


def _mute(config: AgentConfig, who: str, error: BrokerCallError) -> Result:
    """Return what it means that a broker does not speak RocketMQ's protocol."""
    wanted_of = {"its topics": config.topics_from is TopicsFrom.BROKER, "its role": config.elected}
    needs = [what for what, is_needed in wanted_of.items() if is_needed]
    if needs:
        text = f"{who} takes connections and does not answer, which is needed for {', '.join(needs)}: {error}"
        return Result(Check.BROKER, Outcome.FAILED, text)
    text = (
        f"{who} takes connections; it does not speak RocketMQ's protocol, so nobody finds out when it hangs"
    )
    return Result(Check.BROKER, Outcome.OK, text)


def _name(config: AgentConfig) -> str:
    broker = config.broker
    return broker.broker_name if config.elected else f"{broker.broker_name}:{broker.broker_id}"
