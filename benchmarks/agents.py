"""A process full of agents: `python -m benchmarks.agents URL FOLDER FIRST COUNT HEARTBEAT_S LEASE_TTL_S`.

COUNT agents in one event loop, each with a store of its own, as agents on hosts of their own have it. The
broker of agent N listens on a port of its own, and its topics are in FOLDER/broker-NNN/topics.json. It says
`ready` when all agents work, and ends them when the standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from sharedroutes.broker_agent import AgentConfig, BrokerAgent
from sharedroutes.registry import Broker, RegistryConfig

from .kit.workload import broker

_LOOPBACK: Final = "127.0.0.1"
_CALL_DEADLINE_S: Final = RegistryConfig().call_deadline_s


def topics_path(folder: Path, number: int) -> Path:
    """Return where the topics of the broker with that number are."""
    return folder / broker(number).broker_name / "topics.json"


async def main(
    url: str, folder: Path, first: int, count: int, heartbeat_s: float, lease_ttl_s: float
) -> None:
    """Run the agents until the standard input ends; raises ExceptionGroup when one of them fails."""
    registry = RegistryConfig(lease_ttl_s=lease_ttl_s, call_deadline_s=min(_CALL_DEADLINE_S, heartbeat_s))
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        agents = []
        for number in range(first, first + count):
            listener = await asyncio.start_server(_accept, _LOOPBACK, 0)
            stack.push_async_callback(listener.wait_closed)
            stack.callback(listener.close)
            config = AgentConfig(
                broker=Broker(
                    broker(number).broker_name, f"{_LOOPBACK}:{listener.sockets[0].getsockname()[1]}"
                ),
                topics_path=topics_path(folder, number),
                redis_url=url,
                registry=registry,
                heartbeat_s=heartbeat_s,
            )
            agents.append(BrokerAgent(config))
            group.create_task(agents[-1].run())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        for agent in agents:
            agent.stop()


async def _accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Keep a connection open for as long as the other side does."""
    await reader.read()
    writer.close()


if __name__ == "__main__":
    _, where, files, *numbers = sys.argv
    asyncio.run(
        main(where, Path(files), int(numbers[0]), int(numbers[1]), float(numbers[2]), float(numbers[3]))
    )
