"""Sequences of requests to a name server, as brokers, clients and operators send them, and odder ones.

Names are written with `§`, and addresses as `@1`: each example is run with fresh ones, so that one name
server serves all examples.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import orjson
from hypothesis import strategies as st

from sharedroutes.remoting import RequestCode as Code

from .wire import Request, crc32

CLUSTERS: Final = ("§c0", "§c1")
BROKERS: Final = ("§b0", "§b1", "§b2")
PLAIN_TOPICS: Final = ("§t0", "§t1", "§t2", "§t3")
NO_TOPICS: Final = ("§<&>\t\n", "§\x7f\x80\u2028")
"""Names that RocketMQ's brokers refuse."""

ODD_TOPICS: Final = (
    '§"q"',
    "§a\\b/c",
    "§täglich",
    "§日本",
    "§\U0001f600",
    "%RETRY%§",
)
VERSIONS: Final = (513, 479, 493, 413, 412, 409, 407, 401, 400, 317, 121)
MEMBER_TOPIC: Final = "rmq_sys_SYNC_BROKER_MEMBER_§b0"
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"

_BEFORE_MAPPINGS: Final = 413
BEFORE_FILTER_SERVERS: Final = 37


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request on one of the connections."""

    code: int
    fields: Mapping[str, str] | None = None
    body: Registration | str = ""
    on: int = 0
    version: int = 513
    oneway: bool = False
    binary: bool = False
    header: Mapping[str, Any] = field(default_factory=dict)

    def request(self, names: Names) -> Request:
        """Return it with the names of an example."""
        fields = None if self.fields is None else {key: names.fill(text) for key, text in self.fields.items()}
        if isinstance(self.body, Registration):
            assert fields is not None
            body = self.body.encoded(names, self.version)
            fields.update(self.body.announced(body))
        else:
            body = names.fill(self.body).encode()
        return Request(
            code=self.code,
            fields=fields,
            body=body,
            version=self.version,
            oneway=self.oneway,
            binary=self.binary,
            header=self.header,
        )


@dataclass(frozen=True, slots=True)
class Close:
    """The end of one of the connections; the next request there opens another one."""

    on: int = 0


@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes that are no frame, on a connection of their own."""

    data: bytes


Step: TypeAlias = Ask | Close | Garbage


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one example."""

    number: int
    port: int

    @property
    def prefix(self) -> str:
        """What every name has in it."""
        return f"x{self.number}."

    def fill(self, text: str) -> str:
        """Return a text with real names."""
        text = text.replace("§", self.prefix)
        for place in range(10):
            text = text.replace(f"@{place}", self.address(place))
        return text

    def address(self, place: int) -> str:
        """Return an address of the loopback interface that no other example uses."""
        high, low = divmod(self.number, 200)
        return f"127.{high + 1}.{low + 1}.{place + 1}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The body of a registration."""

    topics: Sequence[Mapping[str, Any]]
    data_version: Mapping[str, int]
    filter_servers: Sequence[str] | None = ()
    mappings: Sequence[Mapping[str, Any]] = ()
    deflated: bool = False
    labelled: bool = True
    """Whether the header says so, if it is."""

    crc: str = "none"

    def announced(self, body: bytes) -> dict[str, str]:
        """Return what the request's header says of the body."""
        fields = {"compressed": str(self.deflated and self.labelled).lower()}
        if self.crc != "none":
            fields["bodyCrc32"] = str(crc32(body) ^ (self.crc == "wrong"))
        return fields

    def encoded(self, names: Names, version: int) -> bytes:
        """Return it in the form that a sender of this version uses."""
        if self.deflated:
            text = self._parts(names, has_mappings=version >= _BEFORE_MAPPINGS)
            return zlib.compress(text, 9)
        wrapper: dict[str, Any] = {"dataVersion": self.data_version}
        wrapper["topicConfigTable"] = {topic["topicName"]: topic for topic in self.topics}
        if self.mappings:
            wrapper["topicQueueMappingInfoMap"] = {one["topic"]: one for one in self.mappings}
        body: dict[str, Any] = {"topicConfigSerializeWrapper": wrapper}
        if self.filter_servers is not None:
            body["filterServerList"] = self.filter_servers
        if version < BEFORE_FILTER_SERVERS:
            body = wrapper
        return names.fill(orjson.dumps(body).decode()).encode()

    def _parts(self, names: Names, *, has_mappings: bool) -> bytes:
        parts = [_sized(orjson.dumps(self.data_version).decode(), names), _int(len(self.topics))]
        for topic in self.topics:
            words = [topic["topicName"], topic["readQueueNums"], topic["writeQueueNums"], topic["perm"]]
            words += [topic["topicFilterType"], orjson.dumps(topic.get("attributes", {})).decode()]
            parts.append(_sized(" ".join(map(str, words)), names))
        parts.append(_sized(orjson.dumps(list(self.filter_servers or ())).decode(), names))
        if has_mappings:
            parts.append(_int(len(self.mappings)))
            parts += [_sized(orjson.dumps(one).decode(), names) for one in self.mappings]
        return b"".join(parts)


def _int(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _sized(text: str, names: Names) -> bytes:
    data = names.fill(text).encode()
    return _int(len(data)) + data


# --- what is drawn ------------------------------------------------------------------------------------------

connections: Final = st.integers(0, 3)
data_versions: Final = st.builds(
    lambda state, counter: {"counter": counter, "stateVersion": state, "timestamp": 1_700_000_000_000},
    st.sampled_from((0, 0, 0, 1)),
    st.integers(1, 3),
)
perms: Final = st.sampled_from((6, 6, 6, 7, 4, 2, 1, 0))


def address_of(broker: str, broker_id: str) -> str:
    """Return where a replica is, unless a sequence is about addresses that change."""
    return f"@{3 * BROKERS.index(broker) + max(int(broker_id), 0)}"


@st.composite
def topic_tables(
    draw: st.DrawFn, names: Sequence[str] = PLAIN_TOPICS, *, least: int = 2
) -> list[dict[str, Any]]:
    """Draw the topics of a broker; the unit flags are the same at every broker, as the lists look at one."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=least, max_size=4, unique=True))
    return [
        {
            "attributes": draw(st.sampled_from(({}, {"+message.type": "FIFO"}))),
            "order": draw(st.booleans()),
            "perm": draw(perms),
            "readQueueNums": draw(st.integers(0, 8)),
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": list(names).index(name) % 4,
            "writeQueueNums": draw(st.integers(0, 8)),
        }
        for name in chosen
    ]


@st.composite
def registrations(
    draw: st.DrawFn,
    *,
    topics: Sequence[str] = PLAIN_TOPICS,
    ids: Sequence[str] = ("0", "1", "2"),
    acting: Sequence[str] = ("", "false"),
    least: int = 2,
) -> Ask:
    """Draw a full or an incremental registration; each replica has a connection."""
    broker, broker_id = draw(st.sampled_from(BROKERS[:2])), draw(st.sampled_from(ids))
    fields = {
        "brokerName": broker,
        "brokerAddr": address_of(broker, broker_id),
        "clusterName": CLUSTERS[0],
        "haServerAddr": f"ha.{address_of(broker, broker_id)}",
        "brokerId": broker_id,
    }
    acts = draw(st.sampled_from(acting)) or ("false" if broker_id != "0" else "")
    if (
        acts
    ):  # a slave of 4.x sends none: what a group without its master shows then is not alike, see the page
        fields["enableActingMaster"] = acts
    if draw(st.booleans()):
        fields["heartbeatTimeoutMillis"] = "60000"
    body = Registration(topics=draw(topic_tables(topics, least=least)), data_version=draw(data_versions))
    return Ask(code=Code.REGISTER_BROKER, fields=fields, body=body, on=on(broker, broker_id))


def on(broker: str, broker_id: str) -> int:
    """Return the connection of a replica."""
    return 1 + 3 * BROKERS.index(broker) + max(int(broker_id), 0)


def closes() -> st.SearchStrategy[Close]:
    """Draw the end of a connection of a replica of the first broker."""
    return st.builds(Close, st.sampled_from([on(BROKERS[0], broker_id) for broker_id in ("0", "1", "2")]))


@st.composite
def departures(draw: st.DrawFn, ids: Sequence[str] = ("0", "1", "2")) -> Step:
    """Draw the end of a replica: an unregistration, or that its connection closes."""
    broker, broker_id = draw(st.sampled_from(BROKERS[:2])), draw(st.sampled_from(ids))
    if draw(st.booleans()):
        return Close(on(broker, broker_id))
    fields = {**replica(broker, broker_id), "brokerId": draw(st.sampled_from((broker_id, broker_id, *ids)))}
    return Ask(code=Code.UNREGISTER_BROKER, fields=fields, on=on(broker, broker_id))


def replica(broker: str, broker_id: str) -> dict[str, str]:
    """Return the fields that name a replica."""
    return {
        "brokerName": broker,
        "brokerAddr": address_of(broker, broker_id),
        "clusterName": CLUSTERS[0],
        "brokerId": broker_id,
    }


@st.composite
def heartbeats(draw: st.DrawFn) -> Ask:
    """Draw a heartbeat of either kind; 322 also tells whether the topics have changed."""
    broker, broker_id = draw(st.sampled_from(BROKERS[:2])), draw(st.sampled_from(("0", "1")))
    code = draw(st.sampled_from((Code.BROKER_HEARTBEAT, Code.QUERY_DATA_VERSION)))
    body = orjson.dumps(draw(data_versions)).decode() if code == Code.QUERY_DATA_VERSION else ""
    other = draw(st.sampled_from((broker_id, broker_id, "0", "1", "2")))
    fields = {**replica(broker, broker_id), "brokerId": other}
    return Ask(code=code, fields=fields, body=body, on=on(broker, broker_id))


def routes(topics: Sequence[str] = (*PLAIN_TOPICS, "§unknown", MEMBER_TOPIC)) -> st.SearchStrategy[Ask]:
    """Draw a client's question for a route, of any release and in either header."""
    plain = st.builds(
        lambda topic, version, binary: Ask(
            code=Code.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic}, version=version, binary=binary
        ),
        st.sampled_from(topics),
        st.sampled_from(VERSIONS),
        st.booleans(),
    )
    standard = st.builds(
        lambda topic, value: Ask(
            code=Code.GET_ROUTEINFO_BY_TOPIC,
            fields={"topic": topic, "acceptStandardJsonOnly": value},
            version=317,
        ),
        st.sampled_from(topics),
        st.sampled_from(("true", "TRUE", "false", "1", "")),
    )
    return plain | standard


LISTS: Final = st.sampled_from(
    (
        Ask(code=Code.GET_BROKER_CLUSTER_INFO),
        Ask(code=Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        Ask(code=Code.GET_TOPICS_BY_CLUSTER, fields={"cluster": CLUSTERS[0]}),
        Ask(code=Code.GET_TOPICS_BY_CLUSTER, fields={"cluster": "§nowhere"}),
        Ask(code=Code.GET_SYSTEM_TOPIC_LIST_FROM_NS),
        Ask(code=Code.GET_UNIT_TOPIC_LIST),
        Ask(code=Code.GET_HAS_UNIT_SUB_TOPIC_LIST),
        Ask(code=Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
        Ask(code=Code.GET_BROKER_MEMBER_GROUP, fields={"clusterName": CLUSTERS[0], "brokerName": BROKERS[0]}),
        Ask(code=Code.GET_BROKER_MEMBER_GROUP, fields={"clusterName": "§nowhere", "brokerName": BROKERS[1]}),
        Ask(code=Code.GET_BROKER_MEMBER_GROUP, fields={"clusterName": CLUSTERS[0], "brokerName": "§nobody"}),
    )
)


@st.composite
def permissions(draw: st.DrawFn) -> Ask:
    """Draw that a broker's topics lose their write permission, or are given it."""
    code = draw(st.sampled_from((Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER)))
    return Ask(code=code, fields={"brokerName": draw(st.sampled_from((*BROKERS[:2], "§nobody")))})


@st.composite
def topic_changes(draw: st.DrawFn) -> Ask:
    """Draw that a topic is deleted, or registered alone."""
    topic = draw(st.sampled_from(PLAIN_TOPICS))
    if draw(st.booleans()):
        cluster = draw(st.sampled_from(("", CLUSTERS[0], "§nowhere")))
        fields = {"topic": topic} | ({"clusterName": cluster} if cluster else {})
        return Ask(code=Code.DELETE_TOPIC_IN_NAMESRV, fields=fields)
    queues = [
        {
            "brokerName": broker,
            "perm": draw(perms),
            "readQueueNums": draw(st.integers(1, 8)),
            "topicSysFlag": PLAIN_TOPICS.index(topic) % 4,
            "writeQueueNums": draw(st.integers(1, 8)),
        }
        for broker in draw(st.lists(st.sampled_from(BROKERS[:2]), max_size=1))
    ]
    body = orjson.dumps({"brokerDatas": [], "filterServerTable": {}, "queueDatas": queues}).decode()
    return Ask(code=Code.REGISTER_TOPIC_IN_NAMESRV, fields={"topic": topic}, body=body)


@st.composite
def key_values(draw: st.DrawFn) -> Ask:
    """Draw a request about the key-value store."""
    namespace, key = draw(st.sampled_from(("§n0", "§n1"))), draw(st.sampled_from(("§k0", '§"k/\\é', "§k2")))
    value = draw(st.sampled_from(("1", "b0:4;b1:4", 'ä"/\\\n\u2028\u2029\x01', "", "日本")))
    code = draw(
        st.sampled_from((Code.PUT_KV_CONFIG, Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG))
        | st.sampled_from((Code.DELETE_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE))
    )
    fields = {"namespace": namespace}
    if code != Code.GET_KVLIST_BY_NAMESPACE:
        fields["key"] = key
    if code == Code.PUT_KV_CONFIG:
        fields["value"] = value
    return Ask(code=code, fields=fields)


QUESTIONS: Final = routes() | LISTS


def sequences(*kinds: st.SearchStrategy[Any], longest: int = 25) -> st.SearchStrategy[list[Step]]:
    """Draw a sequence of what is given, in which a broker says nothing else without another version."""
    return st.lists(st.one_of(*kinds), min_size=3, max_size=longest).map(_with_own_versions)


def _with_own_versions(steps: Sequence[Step]) -> list[Step]:
    said: dict[tuple[str, str], dict[bytes, str]] = {}
    return [_with_own_version(step, said) for step in steps]


def _with_own_version(step: Step, said: dict[tuple[str, str], dict[bytes, str]]) -> Step:
    if not isinstance(step, Ask) or not isinstance(step.body, Registration):
        return step
    body, fields = step.body, step.fields or {}
    content = repr((body.topics, body.mappings, body.deflated, step.version))
    versions = said.setdefault((fields.get("clusterName", ""), fields.get("brokerAddr", "")), {})
    version = {**body.data_version}
    while versions.setdefault(orjson.dumps(version), content) != content:
        version["counter"] += 1
    return replace(step, body=replace(body, data_version=version))
