"""`agent --check`: looks at the files, the store and the brokers as the agent would, and changes nothing."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypedDict

from ...daemon.option import masked
from ...daemon.threads import in_thread
from ...registry import AsyncRouteStore, InvalidInput, RegistryError, plans
from ...registry.checks import split_address
from ...registry.keys import Keys
from ...registry.plans.registration import may_register
from ...remoting.broker.client import BrokerCallError, BrokerClient, BrokerRefused, configuration
from ..config import AgentConfig, TopicsFrom
from ..rocketmq.access import AgentAccess
from ..rocketmq.topics import parse
from ..settings.sidecar_config import SidecarConfig

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


class Checked(TypedDict):
    """One thing that was checked, or a problem that was found."""

    check: Check
    outcome: Outcome
    text: str


Line: TypeAlias = tuple[Outcome, str]


def wanted(text: str) -> frozenset[Check]:
    """Return the checks that a list such as `files,store` names; raises InvalidInput."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in Check.__members__.values():
            raise InvalidInput(f"--check: {name!r} is none of {', '.join(Check)}")
    return frozenset(map(Check, names))


async def check(config: SidecarConfig | InvalidInput, checks: frozenset[Check]) -> list[Checked]:
    """Return what was found, a line a check or a problem; a wrong configuration comes as its error."""
    if isinstance(config, InvalidInput):
        wrong = [_checked(Check.FILES, Outcome.FAILED, line) for line in str(config).splitlines()]
        others = (Check.STORE, Check.BROKER)
        return wrong + [_checked(one, Outcome.LEFT_OUT, "the files are wrong") for one in others]
    accesses = [AgentAccess(agent) for agent in config.agents]
    for access in accesses if checks - {Check.STORE} else ():
        await access.load()
    looks: dict[Check, Callable[[], Awaitable[list[Line]]]] = {
        Check.FILES: partial(_files, config, accesses),
        Check.STORE: partial(_store, config),
        Check.BROKER: partial(_brokers, config, accesses),
    }
    found = []
    for one, look in looks.items():
        lines = await look() if one in checks else [(Outcome.LEFT_OUT, "")]
        found += [_checked(one, *line) for line in lines]
    return found


def _checked(one: Check, outcome: Outcome, text: str) -> Checked:
    return {"check": one, "outcome": outcome, "text": text}


async def _files(config: SidecarConfig, accesses: Sequence[AgentAccess]) -> list[Line]:
    problems = [one.why for one in config.awaited]
    found = []
    for agent, access in zip(config.agents, accesses, strict=True):
        if access.problem:
            problems.append(f"{_name(agent)}: {access.problem}")
        path, topics = agent.topics_path, "topics are asked from the broker"
        if path is not None and agent.topics_from in (TopicsFrom.FILES, TopicsFrom.AUTO):
            try:
                topics = await in_thread(_topics, path, agent.topics_from)
            except InvalidInput as error:
                problems += [f"{path}: {line}" for line in str(error).splitlines()]
        found.append(f"{_name(agent)} ({topics})")
    if problems:
        return [(Outcome.FAILED, problem) for problem in problems]
    return [(Outcome.OK, f"{len(found)} broker{'s' if len(found) > 1 else ''}: {', '.join(found)}")]


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
    odd = f", {len(table.odd)} of them are invalid" if table.odd else ""
    return f"{len(table.topics)} topic{'' if len(table.topics) == 1 else 's'}{odd}"


async def _store(config: SidecarConfig) -> list[Line]:
    url, registry = masked(config.redis_url), config.registry
    store = AsyncRouteStore.from_url(config.redis_url, registry)
    # Where no broker.conf can be read, some name shows what the user may do as well.
    replicas = [(one.broker.broker_name, one.broker.broker_id) for one in config.agents] or [("any", 0)]
    try:
        for name, broker_id in replicas:
            denied = await store.run(may_register(Keys(registry.namespace), name, broker_id))
            if denied:
                return [(Outcome.FAILED, f"{url}: {_denied(registry.namespace, denied[0])}")]
    except RegistryError as error:
        return [(Outcome.FAILED, f"{url}: {error}")]
    finally:
        await store.aclose()
    return [(Outcome.OK, f"{url} answers, and lets this user register brokers")]


def _denied(namespace: str, denied: plans.ErrorReply) -> str:
    answer = f"{denied.code} {denied.message}"
    if denied.code != "NOPERM":
        return answer
    return f"{answer}; `sharedroutes acl agent --namespace {namespace}` prints the line of a user that may"


async def _brokers(config: SidecarConfig, accesses: Iterable[AgentAccess]) -> list[Line]:
    found = await asyncio.gather(*map(_broker, config.agents, accesses))
    return found + [(Outcome.LEFT_OUT, f"its address is not known: {one.why}") for one in config.awaited]


async def _broker(config: AgentConfig, access: AgentAccess) -> Line:
    """Look whether a broker is there, and whether it can be asked."""
    if access.problem:
        return Outcome.FAILED, f"{_name(config)}: {access.problem}"
    host, port = split_address(config.probe_address)
    takes = f"{_name(config)} at {config.probe_address} takes connections"
    try:
        connecting = BrokerClient.connect(host, port, deadline_s=config.probe_deadline_s, access=access)
        async with await connecting as client:
            try:
                await configuration(client, _ANSWER_S)
            except BrokerRefused as error:
                if access.trouble:  # it may want another user
                    return Outcome.FAILED, access.trouble
                return Outcome.OK, f"{takes}, and answers: {error}"
            except BrokerCallError as error:
                return _silent(config, takes, error)
    except BrokerCallError as error:
        return Outcome.FAILED, f"{_name(config)}: {error}"
    return Outcome.OK, f"{takes}, and answers"


def _silent(config: AgentConfig, takes: str, error: BrokerCallError) -> Line:
    """Return what it means that a broker does not speak RocketMQ's protocol."""
    answers = {"its topics": config.topics_from is TopicsFrom.BROKER, "its role": config.elected}
    needed = ", ".join(what for what, is_needed in answers.items() if is_needed)
    if needed:
        return Outcome.FAILED, f"{takes} and does not answer, which is needed for {needed}: {error}"
    return (
        Outcome.OK,
        f"{takes}; it does not speak RocketMQ's protocol, so the agent cannot find out when it hangs",
    )


def _name(config: AgentConfig) -> str:
    broker = config.broker
    return broker.broker_name if config.elected else f"{broker.broker_name}:{broker.broker_id}"
