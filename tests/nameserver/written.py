"""Bodies as a broker writes them: a small encoder of the tests' own."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sharedroutes.registry import DataVersion, QueueMapping, TopicConfig
from sharedroutes.registry.codec import encode_config

T1: Final = TopicConfig("T1", 4, 4)
T2: Final = TopicConfig("T2", 8, 8, attributes={"message.type": "FIFO"})
V: Final = DataVersion(1, 1_700_000_000_000, 3)


def encoded(topics: Iterable[TopicConfig]) -> dict[str, bytes]:
    """Return a table as it is registered."""
    return {one.topic_name: encode_config(one) for one in topics}


def topic(config: TopicConfig) -> dict[str, Any]:
    return {
        "attributes": dict(config.attributes),
        "order": config.order,
        "perm": config.perm,
        "readQueueNums": config.read_queue_nums,
        "topicFilterType": config.topic_filter_type,
        "topicName": config.topic_name,
        "topicSysFlag": config.topic_sys_flag,
        "writeQueueNums": config.write_queue_nums,
    }


def mapping(name: str, given: QueueMapping, bname: str = "broker-a") -> dict[str, Any]:
    return {
        "bname": bname,
        "currIdMap": {str(logical): physical for logical, physical in given.current_ids.items()},
        "dirty": given.dirty,
        "epoch": given.epoch,
        "scope": given.scope,
        "topic": name,
        "totalQueues": given.total_queues,
    }


def version(of: DataVersion) -> dict[str, int]:
    return {"counter": of.counter, "stateVersion": of.state_version, "timestamp": of.timestamp}


def wrapper(topics: Iterable[TopicConfig], of: DataVersion) -> dict[str, Any]:
    configs = list(topics)
    return {
        "dataVersion": version(of),
        "topicConfigTable": {one.topic_name: topic(one) for one in configs},
        "topicQueueMappingInfoMap": {
            one.topic_name: mapping(one.topic_name, one.queue_mapping)
            for one in configs
            if one.queue_mapping is not None
        },
    }


def body(
    topics: Iterable[TopicConfig], of: DataVersion, filter_servers: Sequence[str] | None = ()
) -> dict[str, Any]:
    servers = None if filter_servers is None else list(filter_servers)
    return {"filterServerList": servers, "topicConfigSerializeWrapper": wrapper(topics, of)}


def as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def numbered(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def text(content: bytes) -> bytes:
    return numbered(len(content)) + content


def texts(contents: Sequence[bytes]) -> bytes:
    return numbered(len(contents)) + b"".join(map(text, contents))


def line(config: TopicConfig) -> bytes:
    words = (
        config.topic_name,
        config.read_queue_nums,
        config.write_queue_nums,
        config.perm,
        config.topic_filter_type,
        json.dumps(dict(config.attributes), ensure_ascii=False),
    )
    return " ".join(map(str, words)).encode()


def inflated(
    lines: Sequence[bytes],
    of: Mapping[str, int] | None = None,
    *,
    filter_servers: bytes = b"[]",
    mappings: Sequence[bytes] | None = (),
) -> bytes:
    """Return the content of a compressed body; without `mappings` it is one of a broker before 5.0."""
    end = b"" if mappings is None else texts(mappings)
    return text(as_json(of or {})) + texts(lines) + text(filter_servers) + end


def compressed(
    topics: Iterable[TopicConfig], of: DataVersion, filter_servers: Sequence[str] | None = ()
) -> bytes:
    configs = list(topics)
    infos = [mapping(one.topic_name, one.queue_mapping) for one in configs if one.queue_mapping is not None]
    content = inflated(
        [line(one) for one in configs],
        version(of),
        filter_servers=as_json(filter_servers),
        mappings=[as_json(info) for info in infos],
    )
    return zlib.compress(content, 9)
