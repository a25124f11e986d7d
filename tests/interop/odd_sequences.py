"""Requests that few send: odd headers, old and wrong bodies, replicas that change their place, zones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from hypothesis import strategies as st

from sharedroutes.remoting import RequestCode as Code

from .sequences import (
    BROKERS,
    CLUSTERS,
    PLAIN_TOPICS,
    VERSIONS,
    Ask,
    Garbage,
    Registration,
    address_of,
    connections,
    data_versions,
    on,
    registrations,
    replica,
    topic_tables,
)

_VERSION_TEXT: Final = '{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
_TABLE: Final[list[dict[str, Any]]] = [
    {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    for name in PLAIN_TOPICS[:2]
]
_REGISTRATION: Final = Ask(
    code=Code.REGISTER_BROKER,
    fields={**replica(BROKERS[0], "0"), "haServerAddr": "@8", "enableActingMaster": "false"},
    body=Registration(topics=_TABLE, data_version=orjson.loads(_VERSION_TEXT)),
    on=on(BROKERS[0], "0"),
)
_NAMED: Final = {"namespace": "§n0", "key": "§k0"}

USUAL: Final = (
    _REGISTRATION,
    _REGISTRATION,
    Ask(code=Code.PUT_KV_CONFIG, fields={**_NAMED, "value": "v"}),
    Ask(code=Code.GET_KV_CONFIG, fields=_NAMED),
    Ask(code=Code.DELETE_KV_CONFIG, fields=_NAMED),
    Ask(code=Code.GET_KVLIST_BY_NAMESPACE, fields={"namespace": "§n0"}),
    Ask(code=Code.UNREGISTER_BROKER, fields=replica(BROKERS[0], "0")),
    Ask(
        code=Code.GET_ROUTEINFO_BY_TOPIC, fields={"topic": PLAIN_TOPICS[0], "acceptStandardJsonOnly": "true"}
    ),
    Ask(code=Code.GET_BROKER_CLUSTER_INFO),
    Ask(code=Code.WIPE_WRITE_PERM_OF_BROKER, fields={"brokerName": BROKERS[0]}),
    Ask(code=Code.ADD_WRITE_PERM_OF_BROKER, fields={"brokerName": BROKERS[0]}),
    Ask(code=Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
    Ask(code=Code.DELETE_TOPIC_IN_NAMESRV, fields={"topic": PLAIN_TOPICS[1], "clusterName": CLUSTERS[0]}),
    Ask(code=Code.REGISTER_TOPIC_IN_NAMESRV, fields={"topic": PLAIN_TOPICS[2]}, body='{"queueDatas":[]}'),
    Ask(code=Code.GET_TOPICS_BY_CLUSTER, fields={"cluster": CLUSTERS[0]}),
    Ask(code=Code.GET_SYSTEM_TOPIC_LIST_FROM_NS),
    Ask(code=Code.QUERY_DATA_VERSION, fields=replica(BROKERS[0], "0"), body=_VERSION_TEXT),
    Ask(code=Code.GET_BROKER_MEMBER_GROUP, fields={"clusterName": CLUSTERS[0], "brokerName": BROKERS[0]}),
    Ask(code=Code.BROKER_HEARTBEAT, fields=replica(BROKERS[0], "0")),
)
"""A request of each code, as it is usually sent."""

ODD_VALUES: Final = (
    "",
    " ",
    "x" * 2_000,
    "abc",
    "-1",
    "1",
    "0",
    "99999999999",
    "1.0",
    "true",
    "null",
    "+1",
    " 1",
)
ODD_CODES: Final = (0, 1, 9, 107, 320, 903, 905, 4_711, 99_999, -1)
ODD_VERSIONS: Final = (0, 1, 36, 37, 400, 401, 612, 613, 99_999, -1)
ODD_HEADERS: Final[tuple[Mapping[str, Any], ...]] = (
    {"language": "KLINGON"},
    {"language": "GO", "remark": ""},
    {"unknown": {"a": [1, 2]}},
    {"serializeTypeCurrentRPC": "ROCKETMQ"},
    {"remark": "said by a request"},
    {"extFields": None},
)
ODD_BODIES: Final = (
    "",
    "{}",
    "[]",
    "null",
    "no JSON",
    '{"topicConfigSerializeWrapper":{}}',
    "{",
    '{"queueDatas":',
)


@st.composite
def odd_headers(draw: st.DrawFn) -> Ask:
    """Draw a usual request with something odd about it."""
    usual = draw(st.sampled_from(USUAL))
    fields = dict(usual.fields or {})
    oddity = draw(st.sampled_from(("less", "value", "more", "none", "code", "version", "header", "as it is")))
    if oddity == "less" and fields:
        # After a registration without a broker's name, RocketMQ's list 304 ends where its cluster stands.
        kept = {"brokerName"} if usual.code == Code.REGISTER_BROKER else set()
        del fields[draw(st.sampled_from(sorted(fields.keys() - kept)))]
    elif oddity == "value" and fields:
        fields[draw(st.sampled_from(sorted(fields)))] = draw(st.sampled_from(ODD_VALUES))
    elif oddity == "more":
        fields |= {"ns": "n", "nsd": "true", "unknown": "ä", "ReqT": "0"}
    elif oddity == "none" and not isinstance(usual.body, Registration):
        return replace(usual, fields=None)
    elif oddity == "code":
        return replace(usual, code=draw(st.sampled_from(ODD_CODES)))
    elif oddity == "version":
        return replace(usual, version=draw(st.sampled_from(ODD_VERSIONS)))
    elif oddity == "header":
        return replace(usual, header=draw(st.sampled_from(ODD_HEADERS)))
    return replace(usual, fields=fields, binary=draw(st.booleans()))


@st.composite
def odd_bodies(draw: st.DrawFn) -> Ask:
    """Draw a request whose body is not what it should be."""
    code = draw(
        st.sampled_from((Code.REGISTER_BROKER, Code.REGISTER_TOPIC_IN_NAMESRV, Code.QUERY_DATA_VERSION))
    )
    usual = next(one for one in USUAL if one.code == code)
    return replace(usual, body=draw(st.sampled_from(ODD_BODIES)))


@st.composite
def dialects(draw: st.DrawFn) -> Ask:
    """Draw a registration in one of the forms that brokers have had since 3.x."""
    ask = draw(registrations())
    assert isinstance(ask.body, Registration)
    mapping = {
        "bname": (ask.fields or {})["brokerName"],
        "currIdMap": {"0": 0, "1": 1, "10": 2},
        "dirty": False,
        "epoch": 1_700_000_000_000,
        "scope": "__global__",
        "topic": PLAIN_TOPICS[0],
        "totalQueues": 3,
    }
    body = replace(
        ask.body,
        # A compressed body says nothing of unit flags: one that is not has to say that there are none.
        topics=[{**topic, "topicSysFlag": 0} for topic in ask.body.topics],
        deflated=draw(st.booleans()),
        labelled=draw(st.sampled_from((True, True, True, False))),
        crc=draw(st.sampled_from(("none", "right", "right", "wrong"))),
        filter_servers=draw(st.sampled_from((None, (), ("@9",), ("@9", "@7")))),
        mappings=draw(st.sampled_from(((), (), (mapping,)))),
    )
    return replace(ask, body=body, version=draw(st.sampled_from((*VERSIONS, 37, 36, 0))))


@st.composite
def moves(draw: st.DrawFn) -> Ask:
    """Draw a registration of a replica that may be at any address, with any id, in either cluster."""
    broker = draw(st.sampled_from(BROKERS[:2]))
    fields = {
        "brokerName": broker,
        "brokerAddr": draw(st.sampled_from(("@0", "@1", "@2", "@3"))),
        "clusterName": draw(st.sampled_from((CLUSTERS[0], *CLUSTERS))),
        "haServerAddr": "@8",
        "brokerId": draw(st.sampled_from(("0", "0", "1", "2", "-1"))),
        "enableActingMaster": draw(st.sampled_from(("true", "false"))),
    }
    body = Registration(topics=draw(topic_tables(least=0)), data_version=draw(data_versions))
    return Ask(code=Code.REGISTER_BROKER, fields=fields, body=body, on=draw(connections))


@st.composite
def promotions(draw: st.DrawFn) -> Ask:
    """Draw a registration of a replica that keeps its address and changes its id, as controllers do it."""
    broker = BROKERS[0]
    place, broker_id = draw(st.integers(0, 2)), draw(st.sampled_from(("0", "0", "1", "2")))
    fields = {
        **replica(broker, broker_id),
        "brokerAddr": address_of(broker, str(place)),
        "haServerAddr": "@8",
        "enableActingMaster": "true",
    }
    body = Registration(topics=draw(topic_tables()), data_version=draw(data_versions))
    return Ask(code=Code.REGISTER_BROKER, fields=fields, body=body, on=on(broker, str(place)))


@st.composite
def zones(draw: st.DrawFn) -> Ask:
    """Draw a registration with a zone, or a question for the route in one."""
    zone = draw(st.sampled_from(("east", "EAST", "west", "", " ")))
    if draw(st.booleans()):
        ask = draw(registrations(ids=("0",)))  # replicas in different zones are not alike, see the page
        return replace(ask, fields={**(ask.fields or {}), "__ZONE_NAME": zone})
    mode = draw(st.sampled_from(("true", "TRUE", "false")))
    fields = {"topic": draw(st.sampled_from(PLAIN_TOPICS)), "__ZONE_MODE": mode, "__ZONE_NAME": zone}
    return Ask(code=Code.GET_ROUTEINFO_BY_TOPIC, fields=fields, version=draw(st.sampled_from(VERSIONS)))


@st.composite
def orders(draw: st.DrawFn) -> Ask:
    """Draw a change of the queues of ordered topics, or a question to which they matter."""
    topic = draw(st.sampled_from(PLAIN_TOPICS))
    fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic}
    code = draw(st.sampled_from((Code.PUT_KV_CONFIG, Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG)))
    if code == Code.PUT_KV_CONFIG:
        fields["value"] = draw(st.sampled_from(("§b0:4;§b1:4", "§b0:1", "")))
    asked = Ask(code=Code.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
    return draw(st.sampled_from((Ask(code=code, fields=fields), asked)))


SETTINGS: Final = st.sampled_from(
    (
        Ask(code=Code.GET_NAMESRV_CONFIG),
        *(
            Ask(code=Code.UPDATE_NAMESRV_CONFIG, body=body)
            for body in ("", "# nothing", "kvConfigPath=/elsewhere", "nonsense=1", "nonsense=\\u00g0")
        ),
    )
)
"""Requests about settings that change none, since all examples are run on the same name servers."""

GARBAGE: Final = st.sampled_from(
    (
        b"\x00\x00\x00\x00" + b"\x00" * 12,
        b"\xff\xff\xff\xff" + b"\x00" * 12,
        b"\x00\x00\x00\x08\x00\x00\x00\x09abcdefghijkl",
        b"\x00\x00\x00\x10\x07\x00\x00\x02{}0123456789",
        b"\x00\x00\x00\x10\x00\x00\x00\x0cno JSON here",
        b"\x00\xff\xff\xfd" + b"\x00" * 12,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )
).map(Garbage)
