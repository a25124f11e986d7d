"""The files that a real broker wrote, and how a broker rewrites them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

REAL: Final = Path(__file__).parents[1] / "data" / "rocketmq-5.3.3"


def topics_json(*names: str, counter: int = 1, queues: int = 4) -> bytes:
    """Return a topics.json with those topics."""
    return as_written({name: {"readQueueNums": queues, "writeQueueNums": queues} for name in names}, counter)


def as_written(topics: dict[str, dict[str, Any]], counter: int = 1) -> bytes:
    """Return a topics.json in the form of a broker's own; what is not given are a broker's defaults."""
    usual = {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    table = {name: {**usual, "topicName": name, **fields} for name, fields in topics.items()}
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1_795_202_976_261 + counter}
    return json.dumps({"dataVersion": version, "topicConfigTable": table}, indent="\t").encode()


def detail(queues: Iterable[int], broker: str = "broker-a") -> dict[str, Any]:
    """Return what a broker keeps about a static topic, of which it holds these queues."""
    hosted = {queue: [{"bname": broker, "gen": 0, "queueId": queue}] for queue in queues}
    return {"bname": broker, "epoch": 7, "hostedQueues": hosted, "totalQueues": len(hosted)}


def mapping_json(details: dict[str, Any], counter: int = 1) -> bytes:
    """Return a topicQueueMapping.json with those details; as a broker writes them, numeric keys are bare."""
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1_795_202_976_261 + counter}
    content = json.dumps({"dataVersion": version, "topicQueueMappingInfoMap": details}, indent="\t")
    return re.sub(r'"(\d+)":', r"\1:", content).encode()


def broker_conf(name: str, port: int | str, store: Path) -> str:
    """Return the broker.conf of a master that listens on the loopback."""
    return (
        f"brokerClusterName=DefaultCluster\nbrokerName={name}\nbrokerId=0\nbrokerIP1=127.0.0.1\n"
        f"listenPort={port}\nstorePathRootDir={store}\nbrokerRole=ASYNC_MASTER\n"
    )


def put(path: Path, content: bytes) -> None:
    """Write a file; make its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def remove(path: Path) -> None:
    """Remove a file, or an empty folder."""
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()


def rewrite(path: Path, content: bytes) -> None:
    """Write as RocketMQ 5.3.3 does: the old content goes to .bak, then the file is written anew in place."""
    if path.exists():
        _backup(path).write_bytes(path.read_bytes())
    path.write_bytes(content)


def rewrite_by_rename(path: Path, content: bytes) -> None:
    """Write as later versions of RocketMQ do: the file becomes .bak, then there is a new one."""
    path.rename(_backup(path))
    path.write_bytes(content)


def killed_in_the_middle(path: Path, content: bytes) -> None:
    """Begin to write as RocketMQ does, and stop as a process does that is killed."""
    rewrite(path, content[: len(content) // 2])


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
