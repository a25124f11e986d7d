"""The files that a real broker has: its broker.conf, and the topics.json that it writes (RocketMQ 5.3)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

from .scenario import TOPIC

_CLUSTER: Final = "DefaultCluster"

_CONF: Final = """\
brokerClusterName={cluster}
brokerName={name}
brokerId=0
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
listenPort={port}
storePathRootDir={store}
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
autoCreateTopicEnable=true
"""


def write_broker_files(folder: Path, name: str, port: int) -> Path:
    """Write broker.conf into the folder and topics.json where that says; return the path of broker.conf."""
    store = folder / "store"
    (store / "config").mkdir(parents=True)
    (store / "config" / "topics.json").write_text(_topics_json(name), encoding="utf-8")
    conf = folder / "broker.conf"
    conf.write_text(_CONF.format(cluster=_CLUSTER, name=name, port=port, store=store), encoding="utf-8")
    return conf


def _topics_json(name: str) -> str:
    topics = [
        _topic(TOPIC, 4),
        _topic("payments", 2),
        _topic("audit", 2, perm=4),
        # Every broker makes these at its start (TopicConfigManager.init).
        _topic("SELF_TEST_TOPIC", 1),
        _topic("TBW102", 8, perm=7),
        _topic("BenchmarkTest", 1024),
        _topic(_CLUSTER, 16, perm=7),
        _topic(name, 1, perm=7),
        _topic("OFFSET_MOVED_EVENT", 1),
        _topic("SCHEDULE_TOPIC_XXXX", 18),
        _topic(f"{_CLUSTER}_REPLY_TOPIC", 1),
        _topic(f"rmq_sys_SYNC_BROKER_MEMBER_{name}", 1, perm=1),
        _topic(f"rmq_sys_REVIVE_LOG_{_CLUSTER}", 8),
        _topic("RMQ_SYS_TRANS_HALF_TOPIC", 1),
        _topic("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1),
    ]
    version = {"counter": len(topics), "stateVersion": 0, "timestamp": time.time_ns() // 1_000_000}
    table = {topic["topicName"]: topic for topic in topics}
    return json.dumps({"dataVersion": version, "topicConfigTable": table}, indent="\t")


def _topic(name: str, queues: int, perm: int = 6) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }
