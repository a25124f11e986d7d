"""The bodies of answers, byte for byte as RocketMQ's name server writes them with fastjson 1.2.83.

Fields stand in alphabetical order, without those that are null. Lists and the keys of maps are sorted where
those of Java stand in the order of their hashes: the same state has the same bytes at every front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import orjson

from ..registry import MASTER_ID, BrokerData, ClusterInfo, DataVersion, QueueData, TopicRoute
from ..remoting import RemotingCommand

_V4_9_4: Final = 401
"""Clients from this release on are answered in standard JSON."""

_ROUTES_KEPT: Final = 256
"""Topics of one shape share their bytes: those of 10,000 topics at 8 brokers would take 16 MB."""

_NAME: Final = attrgetter("broker_name")
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


class Dialect(Enum):
    """How fastjson writes JSON."""

    STANDARD = r"[^ !#-.0-\[\]-~]"
    """As everybody reads it, in ASCII (fastjson: BrowserCompatible, MapSortField)."""

    LEGACY = r'[\x00-\x1f"\\\x7f-\x9f\u2028\u2029]'
    """fastjson's default: UTF-8, and keys that are numbers have no quotes."""

    def __init__(self, escaped: str) -> None:
        self.escaped: re.Pattern[str] = re.compile(escaped)
        """Finds each character that is escaped in strings."""

    @classmethod
    def of(cls, request: RemotingCommand) -> Dialect:
        """Return the dialect in which a request for a route is answered."""
        if request.version >= _V4_9_4 or _is_true(request.ext_field("acceptStandardJsonOnly")):
            return cls.STANDARD
        return cls.LEGACY


def zone_of(request: RemotingCommand) -> str | None:
    """Return the zone to which a route is to be limited, or None (RocketMQ: ZoneRouteRPCHook)."""
    zone = request.ext_field("__ZONE_NAME")
    wanted = zone and not zone.isspace() and _is_true(request.ext_field("__ZONE_MODE"))
    return zone if wanted else None


def route(
    found: TopicRoute, dialect: Dialect, *, order_topic_conf: str | None = None, zone: str | None = None
) -> bytes:
    """Return a TopicRouteData (105).

    With a zone only its brokers remain, and those without a master; as in RocketMQ it is then always in the
    legacy dialect, and the mappings of other brokers stay.
    """
    if zone is not None:
        return _route(found, Dialect.LEGACY, order_topic_conf, zone.lower())
    if all(queues.queue_mapping is None for queues in found.queue_datas):
        found = TopicRoute("", found.queue_datas, found.broker_datas)  # the answer does not say its name
    return _shared_route(found, dialect, order_topic_conf)


def cluster_info(info: ClusterInfo) -> bytes:
    """Return a ClusterInfo (106); its brokers have their own ids, whoever stands in for a master."""
    brokers = {name: _broker(one) for name, one in info.brokers.items()}
    return _encoded({"brokerAddrTable": brokers, "clusterAddrTable": info.clusters})


def member_group(cluster: str, broker_name: str, addresses: Mapping[int, str]) -> bytes:
    """Return the BrokerMemberGroup of a broker (901); an unknown one has no addresses."""
    group = {"brokerAddrs": addresses, "brokerName": broker_name, "cluster": cluster}
    return _encoded({"brokerMemberGroup": group})


def topic_list(topics: Iterable[str], broker_address: str | None = None) -> bytes:
    """Return a TopicList (206, 224, 304, 311 to 313); only 304 has an address, that of any broker."""
    names = sorted(topics)
    listed = orjson.dumps(names)  # in a millisecond, where ours takes 70, if it escapes nothing
    if not listed.isascii() or b"\\" in listed or b"\x7f" in listed:
        listed = _json(names, Dialect.LEGACY).encode()
    address = "" if broker_address is None else f'"brokerAddr":{_json(broker_address, Dialect.LEGACY)},'
    return b'{%s"topicList":%s}' % (address.encode(), listed)


def kv_table(table: Mapping[str, str]) -> bytes:
    """Return a KVTable (219, and 103 with the order of topics)."""
    return _encoded({"table": table})


def data_version(version: DataVersion) -> bytes:
    """Return a DataVersion (322)."""
    return _encoded(
        {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp}
    )


def configuration(settings: Mapping[str, str]) -> bytes:
    """Return settings as lines of `key=value`, in which nothing is escaped (319)."""
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items())).encode()


def _route(
    found: TopicRoute, dialect: Dialect, order_topic_conf: str | None, zone: str | None = None
) -> bytes:
    queues = sorted(found.queue_datas, key=_NAME)
    brokers = sorted(found.broker_datas, key=_NAME)
    if zone is not None:
        brokers = [
            one for one in brokers if MASTER_ID not in one.broker_addrs or one.zone_name.lower() == zone
        ]
        names = {one.broker_name for one in brokers}
        queues = [one for one in queues if one.broker_name in names]
    return _encoded(
        {
            "brokerDatas": [_broker(one) for one in brokers],
            "filterServerTable": {
                address: servers for one in brokers for address, servers in one.filter_servers.items()
            },
            "orderTopicConf": order_topic_conf,
            "queueDatas": [_queues(one) for one in queues],
            "topicQueueMappingByBroker": _mappings(found) or None,
        },
        dialect,
    )


_shared_route: Final = lru_cache(_ROUTES_KEPT)(_route)


def _broker(broker: BrokerData) -> dict[str, object]:
    return {
        "brokerAddrs": broker.broker_addrs,
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.enable_acting_master,
        "zoneName": broker.zone_name or None,
    }


def _queues(queues: QueueData) -> dict[str, object]:
    return {
        "brokerName": queues.broker_name,
        "perm": queues.perm,
        "readQueueNums": queues.read_queue_nums,
        "topicSysFlag": queues.topic_sys_flag,
        "writeQueueNums": queues.write_queue_nums,
    }


def _mappings(found: TopicRoute) -> dict[str, object]:
    """Return the TopicQueueMappingInfo of each broker of a static topic."""
    return {
        queues.broker_name: {
            "bname": queues.broker_name,
            "currIdMap": mapping.current_ids,
            "dirty": mapping.dirty,
            "epoch": mapping.epoch,
            "scope": mapping.scope,
            "topic": found.topic,
            "totalQueues": mapping.total_queues,
        }
        for queues in found.queue_datas
        if (mapping := queues.queue_mapping) is not None
    }


def _is_true(text: str | None) -> bool:
    """Whether Java's Boolean.parseBoolean says so."""
    return text is not None and text.lower() == "true"


def _encoded(value: Mapping[str, object], dialect: Dialect = Dialect.LEGACY) -> bytes:
    return _json(value, dialect).encode("utf-8", "replace")


def _json(value: Any, dialect: Dialect) -> str:
    """Return the JSON of a value."""
    if isinstance(value, str):
        return f'"{dialect.escaped.sub(_escaped, value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (dict, Mapping)):  # dict: asking whether it is a Mapping takes longer
        members = [_member(key, value[key], dialect) for key in sorted(value) if value[key] is not None]
        return f"{{{','.join(members)}}}"
    return f"[{','.join([_json(one, dialect) for one in value])}]"


def _member(key: str | int, value: Any, dialect: Dialect) -> str:
    bare = isinstance(key, int) and dialect is Dialect.LEGACY
    return f"{key if bare else _json(str(key), dialect)}:{_json(value, dialect)}"


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    units = sign.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
