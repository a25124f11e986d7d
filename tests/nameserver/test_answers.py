"""Answers are written as RocketMQ's name server 5.3.3 and fastjson 1.2.83 wrote theirs, byte for byte.

How both were recorded stands in golden/record.py and golden/Strings.java.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.nameserver import answers
from sharedroutes.nameserver.answers import Dialect
from sharedroutes.nameserver.bodies import RegisterBody, properties, registration
from sharedroutes.registry import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    QueueMapping,
    TopicConfig,
    TopicRoute,
)
from sharedroutes.registry.codec import decode_config
from sharedroutes.registry.plans.routes import route_of
from sharedroutes.remoting import RemotingCommand, fastjson, request
from tests.interop.answers import comparable
from tests.interop.wire import RawAnswer
from tests.nameserver import written
from tests.nameserver.golden.record import body_of

GOLDEN: Final = Path(__file__).with_name("golden")
RECORDED: Final = json.loads((GOLDEN / "nameserver-5.3.3.json").read_text(encoding="utf-8"))
STRINGS: Final = [line.split(" ", 2) for line in (GOLDEN / "fastjson-1.2.83.txt").read_text().splitlines()]

EMPTY: Final = TopicRoute("T", (), ())
TEXTS: Final = st.text(st.characters(codec="utf-8"))


class State:
    """What was registered at the recorded name server, as our registry would hold it."""

    def __init__(self) -> None:
        self.alive: dict[str, BrokerData] = {}
        self.rows: dict[str, tuple[QueueData, ...]] = {}
        self.topics: dict[str, TopicConfig] = {}
        self.versions: dict[str, DataVersion] = {}
        for sent in RECORDED["registrations"]:
            fields = sent["fields"]
            found = registration(
                body_of(sent),
                version=sent.get("version", 479),
                compressed=fields["compressed"] == "true",
                broker_name=fields["brokerName"],
            )
            self._register(fields, found)

    def _register(self, fields: dict[str, str], found: RegisterBody) -> None:
        name, address = fields["brokerName"], fields["brokerAddr"]
        assert found.refused == ()
        new = BrokerData(
            fields["clusterName"],
            name,
            {},
            fields.get("__ZONE_NAME", ""),
            fields.get("enableActingMaster") == "true",
            name == RECORDED["wiped"],
        )
        old = self.alive.get(name, new)
        servers = {**old.filter_servers} | ({address: found.filter_servers} if found.filter_servers else {})
        addresses = {**old.broker_addrs, int(fields["brokerId"]): address}
        self.alive[name] = replace(old, broker_addrs=addresses, filter_servers=servers)
        topics = {of: decode_config("", of, config) for of, config in found.topics.items()}
        self.topics |= topics
        self.versions[name] = found.version
        for config in topics.values():
            counts = (config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag)
            row = QueueData(name, *counts, config.queue_mapping)
            self.rows[config.topic_name] = (*self.rows.get(config.topic_name, ()), row)

    @property
    def clusters(self) -> dict[str, tuple[str, ...]]:
        """The brokers of each cluster."""
        names = {broker.cluster for broker in self.alive.values()}
        return {
            name: tuple(broker.broker_name for broker in self.alive.values() if broker.cluster == name)
            for name in names
        }


STATE: Final = State()
SETTINGS_TEXT: Final = next(one["body"] for one in RECORDED["answers"] if one["what"] == "settings")
SETTINGS: Final = dict(reversed(properties(SETTINGS_TEXT.encode()).items()))


def route_answered(asked: RemotingCommand) -> bytes:
    name = (asked.ext_fields or {})["topic"]
    found = route_of(name, STATE.rows[name], STATE.alive)
    order, zone = RECORDED["values"].get(name), answers.zone_of(asked)
    return answers.route(found, Dialect.of(asked), order_topic_conf=order, zone=zone)


def member_group_answered(asked: RemotingCommand) -> bytes:
    fields = asked.ext_fields or {}
    broker = STATE.alive.get(fields["brokerName"])
    addresses = broker.broker_addrs if broker else {}
    return answers.member_group(fields["clusterName"], fields["brokerName"], addresses)


def topics_of_cluster_answered(asked: RemotingCommand) -> bytes:
    brokers = STATE.clusters.get((asked.ext_fields or {})["cluster"], ())
    return answers.topic_list(
        name for name, rows in STATE.rows.items() if any(row.broker_name in brokers for row in rows)
    )


ANSWERED: Final[dict[str, Callable[[RemotingCommand], bytes]]] = {
    "route, standard": route_answered,
    "route, legacy": route_answered,
    "route, zone": route_answered,
    "cluster info": lambda _: answers.cluster_info(ClusterInfo(STATE.alive, STATE.clusters)),
    "member group": member_group_answered,
    "all topics": lambda _: answers.topic_list(STATE.rows),
    "topics of a cluster": topics_of_cluster_answered,
    "unit topics": lambda _: answers.topic_list(
        name for name, one in STATE.topics.items() if one.topic_sys_flag & 1
    ),
    "system topics": lambda _: answers.topic_list([*STATE.clusters, *STATE.alive], "10.0.0.3:10911"),
    "data version": lambda _: answers.data_version(STATE.versions["broker-a"]),
    "settings": lambda _: answers.configuration(SETTINGS),
    "key values": lambda _: answers.kv_table(RECORDED["values"]),
}


@pytest.mark.parametrize("place", range(len(RECORDED["answers"])))
def test_an_answer_is_that_of_a_real_name_server(place: int) -> None:
    recorded = RECORDED["answers"][place]
    asked = request(recorded["code"], recorded["fields"], version=recorded["version"])
    ours = ANSWERED[recorded["what"]](asked)
    sorts_maps = recorded["what"] == "route, standard"
    expected = comparable(RawAnswer(b"", recorded["body"].encode()), sorts_maps=sorts_maps)
    assert comparable(RawAnswer(b"", ours), sorts_maps=sorts_maps) == expected


# --- strings ------------------------------------------------------------------------------------------------


def string(dialect: Dialect, text: str) -> str:
    """Return how an answer in a dialect writes a string."""
    body = answers.route(EMPTY, dialect, order_topic_conf=text).decode()
    before, after = '{"brokerDatas":[],"filterServerTable":{},"orderTopicConf":', ',"queueDatas":[]}'
    assert body.startswith(before)
    assert body.endswith(after)
    return body[len(before) : -len(after)]


@pytest.mark.parametrize(
    ("dialect", "run"), [(dialect, rest) for dialect, kind, rest in STRINGS if kind == "run"]
)
def test_each_character_is_written_as_by_fastjson(dialect: str, run: str) -> None:
    first, last, way = run.split(" ", 2)
    signs = [chr(number) for number in range(int(first, 16), int(last, 16) + 1)]
    wanted = {"itself": "{}".format, "unicode": lambda sign: f"\\u{ord(sign):04X}"}.get(way, lambda _: way)
    assert string(Dialect[dialect], "".join(signs)) == f'"{"".join(map(wanted, signs))}"'


@pytest.mark.parametrize(
    ("dialect", "pair"), [(dialect, rest) for dialect, kind, rest in STRINGS if kind == "text"]
)
def test_a_text_is_written_as_by_fastjson(dialect: str, pair: str) -> None:
    text, expected = (bytes.fromhex(digits).decode() for digits in pair.split(" "))
    assert string(Dialect[dialect], text) == expected


def model_of_string(dialect: Dialect, text: str) -> str:
    """Return the JSON of a text, letter by letter: what Strings.java found, said in another way."""
    named = {"\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}
    if dialect is Dialect.STANDARD:
        named["/"] = "/"
        text = "".join(
            letter if ord(letter) < 0x10000 else "".join(map(chr, _surrogates(letter))) for letter in text
        )
    written_as = []
    for letter in text:
        number = ord(letter)
        control = number < 0x20 or 0x7F <= number < 0xA0 or number in (0x2028, 0x2029)
        if letter in named:
            written_as.append("\\" + named[letter])
        elif control or (dialect is Dialect.STANDARD and number > 0x7F):
            written_as.append(f"\\u{number:04X}")
        else:
            written_as.append(letter)
    return f'"{"".join(written_as)}"'


def _surrogates(letter: str) -> tuple[int, int]:
    high, low = divmod(ord(letter) - 0x10000, 0x400)
    return 0xD800 + high, 0xDC00 + low


@given(st.sampled_from(Dialect), TEXTS)
def test_any_text_is_written_as_the_model_says(dialect: Dialect, text: str) -> None:
    assert string(dialect, text) == model_of_string(dialect, text)
    assert json.loads(string(dialect, text)) == text


@given(st.lists(TEXTS), st.none() | TEXTS)
def test_topics_are_listed_in_order_whatever_they_are_called(topics: list[str], address: str | None) -> None:
    body = answers.topic_list(topics, address).decode()
    names = ",".join(model_of_string(Dialect.LEGACY, topic) for topic in sorted(topics))
    before = "" if address is None else f'"brokerAddr":{model_of_string(Dialect.LEGACY, address)},'
    assert body == f'{{{before}"topicList":[{names}]}}'


@given(st.dictionaries(TEXTS, TEXTS))
def test_key_values_are_written_in_order(table: dict[str, str]) -> None:
    entries = (
        f"{model_of_string(Dialect.LEGACY, key)}:{model_of_string(Dialect.LEGACY, value)}"
        for key, value in sorted(table.items())
    )
    assert answers.kv_table(table).decode() == f'{{"table":{{{",".join(entries)}}}}}'


def test_a_lone_surrogate_becomes_a_question_mark_as_in_java() -> None:
    assert answers.kv_table({"k": "\ud800"}) == b'{"table":{"k":"?"}}'


# --- routes -------------------------------------------------------------------------------------------------

NAMES: Final = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=5)
PORTS: Final = st.integers(1, 65_535).map("h:{}".format)
BROKERS: Final = st.builds(
    BrokerData,
    NAMES,
    NAMES,
    st.dictionaries(st.integers(0, 2**63 - 1) | st.integers(0, 12), PORTS, min_size=1, max_size=4),
    st.sampled_from(["", "z1", "Z1", "z2"]),
    st.booleans(),
    st.booleans(),
    st.dictionaries(PORTS, st.lists(PORTS, min_size=1, max_size=2).map(tuple), max_size=2),
)
MAPPINGS: Final = st.builds(
    QueueMapping,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.dictionaries(st.integers(0, 20), st.integers(0, 20), max_size=3),
    NAMES,
    st.booleans(),
)


@st.composite
def routes(draw: st.DrawFn) -> TopicRoute:
    brokers = draw(st.lists(BROKERS, max_size=4, unique_by=lambda broker: broker.broker_name))
    count = st.integers(0, 65_536)
    queues = [
        draw(
            st.builds(
                QueueData,
                st.just(one.broker_name),
                count,
                count,
                st.integers(0, 7),
                st.integers(0, 2**31 - 1),
                st.none() | MAPPINGS,
            )
        )
        for one in brokers
    ]
    return TopicRoute(draw(NAMES), tuple(draw(st.permutations(queues))), tuple(brokers))


def model_of_route(found: TopicRoute, zone: str | None) -> dict[str, Any]:
    """Return what the JSON of a route says."""
    brokers = [
        one
        for one in sorted(found.broker_datas, key=lambda broker: broker.broker_name)
        if zone is None or 0 not in one.broker_addrs or one.zone_name.lower() == zone
    ]
    names = [broker.broker_name for broker in brokers]
    queues = {one.broker_name: one for one in found.queue_datas}
    static = {
        one.broker_name: written.mapping(found.topic, one.queue_mapping, one.broker_name)
        for one in found.queue_datas
        if one.queue_mapping is not None
    }
    filter_servers: dict[str, list[str]] = {}
    for broker in brokers:
        filter_servers |= {address: list(servers) for address, servers in broker.filter_servers.items()}
    return {
        "brokerDatas": [
            {
                "brokerAddrs": {str(broker_id): address for broker_id, address in one.broker_addrs.items()},
                "brokerName": one.broker_name,
                "cluster": one.cluster,
                "enableActingMaster": one.enable_acting_master,
            }
            | ({"zoneName": one.zone_name} if one.zone_name else {})
            for one in brokers
        ],
        "filterServerTable": filter_servers,
        "queueDatas": [
            {
                "brokerName": name,
                "perm": queues[name].perm,
                "readQueueNums": queues[name].read_queue_nums,
                "topicSysFlag": queues[name].topic_sys_flag,
                "writeQueueNums": queues[name].write_queue_nums,
            }
            for name in names
        ],
    } | ({"topicQueueMappingByBroker": static} if static else {})


@given(routes(), st.none() | st.sampled_from(["z1", "z2", "z3"]))
def test_a_route_says_the_same_in_both_dialects(found: TopicRoute, zone: str | None) -> None:
    expected = model_of_route(found, zone)
    standard = answers.route(found, Dialect.STANDARD, zone=zone)
    legacy = answers.route(found, Dialect.LEGACY, zone=zone)
    assert fastjson.loads(legacy) == expected
    if zone is None:
        assert standard.isascii()
        assert json.loads(standard) == expected
    else:
        assert standard == legacy


@given(routes(), st.sampled_from(Dialect), st.randoms())
def test_the_same_route_has_the_same_bytes_in_any_order(
    found: TopicRoute, dialect: Dialect, generator: random.Random
) -> None:
    queues = list(found.queue_datas)
    brokers = [replace(one, broker_addrs=shuffled(one.broker_addrs, generator)) for one in found.broker_datas]
    generator.shuffle(brokers)
    generator.shuffle(queues)
    other = TopicRoute(found.topic, tuple(queues), tuple(brokers))
    assert answers.route(other, dialect) == answers.route(found, dialect)


def shuffled(table: Mapping[int, str], generator: random.Random) -> dict[int, str]:
    items = list(table.items())
    generator.shuffle(items)
    return dict(items)


def test_ids_stand_in_the_order_of_numbers() -> None:
    broker = BrokerData("c", "b", {10: "h:10", 9: "h:9", 0: "h:1"})
    route = TopicRoute("T", (QueueData("b", 1, 1, 6),), (broker,))
    assert b'{"0":"h:1","9":"h:9","10":"h:10"}' in answers.route(route, Dialect.STANDARD)
    assert b'{0:"h:1",9:"h:9",10:"h:10"}' in answers.route(route, Dialect.LEGACY)


def test_topics_of_one_shape_share_their_bytes() -> None:
    one = TopicRoute("T1", (QueueData("b", 1, 1, 6),), (BrokerData("c", "b", {0: "h:1"}),))
    other = replace(one, topic="T2")
    assert answers.route(one, Dialect.LEGACY) is answers.route(other, Dialect.LEGACY)
    assert answers.route(one, Dialect.LEGACY) != answers.route(other, Dialect.STANDARD)


@given(st.lists(routes(), min_size=2, max_size=3), st.sampled_from(Dialect), st.none() | TEXTS)
def test_nothing_else_is_shared(found: list[TopicRoute], dialect: Dialect, order: str | None) -> None:
    nearly = replace(
        found[0], broker_datas=tuple(replace(one, broker_addrs={0: "h:9"}) for one in found[0].broker_datas)
    )
    for one in (*found, nearly, *found):
        body = fastjson.loads(answers.route(one, dialect, order_topic_conf=order))
        assert body == model_of_route(one, None) | ({} if order is None else {"orderTopicConf": order})


@pytest.mark.parametrize(
    ("version", "fields", "dialect"),
    [
        (401, None, Dialect.STANDARD),
        (479, {"acceptStandardJsonOnly": "false"}, Dialect.STANDARD),
        (400, None, Dialect.LEGACY),
        (0, {}, Dialect.LEGACY),
        (317, {"acceptStandardJsonOnly": "TRUE"}, Dialect.STANDARD),
        (317, {"acceptStandardJsonOnly": "1"}, Dialect.LEGACY),
        (317, {"acceptStandardJsonOnly": ""}, Dialect.LEGACY),
    ],
)
def test_the_sender_decides_the_dialect(
    version: int, fields: dict[str, str] | None, dialect: Dialect
) -> None:
    assert Dialect.of(request(105, fields, version=version)) is dialect


@pytest.mark.parametrize(
    ("fields", "zone"),
    [
        (None, None),
        ({"__ZONE_NAME": "z"}, None),
        ({"__ZONE_MODE": "true"}, None),
        ({"__ZONE_MODE": "true", "__ZONE_NAME": " "}, None),
        ({"__ZONE_MODE": "false", "__ZONE_NAME": "z"}, None),
        ({"__ZONE_MODE": "TRUE", "__ZONE_NAME": "z"}, "z"),
    ],
)
def test_a_zone_counts_if_it_is_asked_for(fields: dict[str, str] | None, zone: str | None) -> None:
    assert answers.zone_of(request(105, fields)) == zone
