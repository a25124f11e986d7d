"""Records what a real name server 5.3.3 answers, for test_answers.py to compare ours with.

    python -m tests.nameserver.golden.record

It takes Java and the jars of rocketmq-namesrv 5.3.3 of Maven Central; `make interop` copies them to
~/.cache/sharedroutes/rocketmq/5.3.3. In nameserver-5.3.3.json stand the registrations that were sent by
hand, with their bodies, and then each question with the body of its answer, as it came over the socket.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

from sharedroutes.remoting import RequestCode as Code
from tests.interop.wire import Link, RawAnswer, Request
from tests.nameserver import written
from tests.real.rocketmq import RealNameServer

RECORDING: Final = Path(__file__).with_name("nameserver-5.3.3.json")

_SETTINGS: Final = {"orderMessageEnable": "true", "supportActingMaster": "true"}
_ACTING: Final = {"enableActingMaster": "true"}
ODD: Final = 'odd/<&>"\\é\x80日😀'
_SYNC_TOPIC: Final = "rmq_sys_SYNC_BROKER_MEMBER_broker-h"


def topic(name: str, **fields: Any) -> dict[str, Any]:
    plain = {
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    return plain | fields


def registration(
    header: dict[str, str],
    topics: list[dict[str, Any]],
    *,
    filter_servers: tuple[str, ...] = (),
    mappings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the header and the body of a registration, with what all have in common."""
    fields = {"brokerId": "0", "clusterName": "C1", "haServerAddr": f"ha.{header['brokerAddr']}"}
    wrapper = {
        "dataVersion": {"counter": 3, "stateVersion": 1, "timestamp": 1_700_000_000_000},
        "topicConfigTable": {one["topicName"]: one for one in topics},
        "topicQueueMappingInfoMap": mappings or {},
    }
    body = {"filterServerList": list(filter_servers), "topicConfigSerializeWrapper": wrapper}
    return {"fields": {**fields, "compressed": "false", **header}, "body": body}


def deflated(
    name: str, address: str, topics: list[str], mappings: list[Any] | None, *, version: int
) -> dict[str, Any]:
    """Return a registration whose body is compressed; it stands there as hexadecimal digits."""
    content = written.inflated(
        [topic.encode() for topic in topics],
        {"counter": 1, "timestamp": 5},
        mappings=None if mappings is None else [written.as_json(one) for one in mappings],
    )
    fields = {"brokerId": "0", "clusterName": "C1", "haServerAddr": f"ha.{address}", "compressed": "true"}
    fields |= {"brokerName": name, "brokerAddr": address}
    return {"fields": fields, "body": zlib.compress(content, 9).hex(), "version": version}


_STATIC: Final = {
    "bname": "broker-a",
    "currIdMap": {"10": 1, "2": 0},
    "dirty": False,
    "epoch": 5,
    "scope": "__global__",
    "topic": "Static",
    "totalQueues": 16,
}
REGISTRATIONS: Final = [
    registration(
        {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "__ZONE_NAME": "Z1", **_ACTING},
        [
            topic("Plain"),
            topic("Ordered", order=True, attributes={"message.type": "FIFO"}),
            topic("Static", perm=7),
            topic(ODD, readQueueNums=1),
            topic("Unit", topicSysFlag=1),
            topic("UnitSub", topicSysFlag=3),
            topic("SubOnly", topicSysFlag=2),
        ],
        filter_servers=("10.0.9.1:5000", "10.0.9.1:5001"),
        mappings={"Static": _STATIC},
    ),
    registration(
        {"brokerName": "broker-a", "brokerAddr": "10.0.0.2:10911", "brokerId": "1", **_ACTING}
        | {"__ZONE_NAME": "Z1"},
        [],
    ),
    registration(
        {"brokerName": "bröker/b", "brokerAddr": "10.0.0.3:10911", "__ZONE_NAME": "z2"},
        [topic("Plain", perm=7, writeQueueNums=8), topic("Wiped")],
        filter_servers=("10.0.9.3:5000",),
    ),
    registration(
        {"brokerName": "broker-h", "brokerAddr": "10.0.0.5:10911", "brokerId": "2", **_ACTING},
        [topic("Plain"), topic("Headless", topicSysFlag=2), topic(_SYNC_TOPIC, perm=1)],
    ),
    registration({"brokerName": "broker-h", "brokerAddr": "10.0.0.6:10911", "brokerId": "11", **_ACTING}, []),
    registration(
        {"brokerName": "broker-s", "brokerAddr": "10.0.0.7:10911", "brokerId": "3", "clusterName": "C2"}
        | {"enableActingMaster": "false"},
        [topic("Plain"), topic("Slaves")],
    ),
    deflated(
        "broker-5",
        "10.0.0.8:10911",
        ['Static 2 3 7 SINGLE_TAG {"a":"b c"}', "Deflated 1 2 6 MULTI_TAG {}"],
        [_STATIC | {"bname": "broker-5", "currIdMap": {"3": 0}}],
        version=479,
    ),
    deflated(
        "broker-4", "10.0.0.9:10911", ["Deflated 5 6 4 SINGLE_TAG", "Old 1 1 2 SINGLE_TAG"], None, version=407
    ),
    {
        "fields": {"brokerId": "0", "clusterName": "C1", "haServerAddr": "ha.10.0.0.10:10911"}
        | {"brokerName": "broker-3", "brokerAddr": "10.0.0.10:10911", "compressed": "false"},
        "body": {"topicConfigTable": {name: topic(name, topicSysFlag=4) for name in ("Older", "Old")}},
        "version": 36,
    },
]
WIPED: Final = "bröker/b"
_VALUES: Final = {"Ordered": "broker-a:4;broker-h:4", 'k"/\\é': 'ä"/\\\n\u2028\x01日😀'}


def _route(name: str, **fields: str) -> tuple[Code, dict[str, str]]:
    return Code.GET_ROUTEINFO_BY_TOPIC, {"topic": name, **fields}


_TOPICS: Final = (
    "Plain",
    "Ordered",
    "Static",
    ODD,
    "Headless",
    _SYNC_TOPIC,
    "Slaves",
    "Deflated",
    "Old",
    "Older",
)
_ZONED: Final = {"__ZONE_MODE": "true", "__ZONE_NAME": "Z2"}
QUESTIONS: Final = [
    *(("route, standard", *_route(name), 479) for name in _TOPICS),
    *(("route, legacy", *_route(name), 400) for name in _TOPICS),
    ("route, zone", *_route("Plain", **_ZONED), 479),
    ("route, zone", *_route("Static", **_ZONED), 479),
    ("route, zone", *_route("Plain", __ZONE_MODE="True", __ZONE_NAME="nowhere"), 400),
    ("route, standard", *_route("Plain", __ZONE_MODE="yes", __ZONE_NAME="Z2"), 479),
    ("route, standard", *_route("Plain", acceptStandardJsonOnly="True"), 0),
    ("cluster info", Code.GET_BROKER_CLUSTER_INFO, {}, 479),
    *(
        ("member group", Code.GET_BROKER_MEMBER_GROUP, {"clusterName": "C1", "brokerName": name}, 479)
        for name in ("broker-a", "bröker/b", "broker-h", "nobody")
    ),
    ("all topics", Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, 479),
    ("topics of a cluster", Code.GET_TOPICS_BY_CLUSTER, {"cluster": "C2"}, 479),
    ("topics of a cluster", Code.GET_TOPICS_BY_CLUSTER, {"cluster": "nowhere"}, 479),
    ("system topics", Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, {}, 479),
    ("unit topics", Code.GET_UNIT_TOPIC_LIST, {}, 479),
    ("data version", Code.QUERY_DATA_VERSION, REGISTRATIONS[0]["fields"], 479),
    ("settings", Code.GET_NAMESRV_CONFIG, {}, 479),
    ("key values", Code.GET_KVLIST_BY_NAMESPACE, {"namespace": "ORDER_TOPIC_CONFIG"}, 479),
]


def _body(link: Link, code: int, fields: dict[str, str], body: bytes = b"", version: int = 479) -> str:
    answer = link.ask(Request(code=code, fields=fields, body=body, version=version))
    assert isinstance(answer, RawAnswer)
    assert json.loads(answer.header)["code"] == 0, answer
    return answer.body.decode()


def body_of(registered: dict[str, Any]) -> bytes:
    """Return the bytes of a body as it was sent."""
    body = registered["body"]
    return bytes.fromhex(body) if isinstance(body, str) else written.as_json(body)


def _recorded(server: RealNameServer) -> dict[str, Any]:
    brokers = [Link(server.address) for _ in REGISTRATIONS]  # a closed one takes its broker with it
    for link, sent in zip(brokers, REGISTRATIONS, strict=True):
        _body(link, Code.REGISTER_BROKER, sent["fields"], body_of(sent), sent.get("version", 479))
    asker = Link(server.address)
    _body(asker, Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": WIPED})
    for key, value in _VALUES.items():
        _body(asker, Code.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": key, "value": value})
    answers = []
    for what, code, fields, version in QUESTIONS:
        body = _body(asker, code, fields, version=version)
        answers.append({"what": what, "code": code, "fields": fields, "version": version, "body": body})
    return {"registrations": REGISTRATIONS, "wiped": WIPED, "values": _VALUES, "answers": answers}


def main() -> None:
    """Record."""
    with tempfile.TemporaryDirectory() as folder:
        with RealNameServer("5.3.3", Path(folder, "ns"), _SETTINGS) as server:
            recorded = _recorded(server)
        text = json.dumps(recorded, ensure_ascii=False, indent=1).replace(folder, "/folder")
    RECORDING.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
