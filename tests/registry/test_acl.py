"""Each role's user can do what the role is for, and nothing that is not its business."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pytest
import redis

from sharedroutes.registry import (
    DataVersion,
    EmbeddedServer,
    LeaseStatus,
    RegistryConfig,
    Reset,
    RouteStore,
    StoreRefused,
    plans,
)
from sharedroutes.registry.acl import PASSWORD_PLACEHOLDER, Role, acl_rules, commands_of
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import fronts
from sharedroutes.registry.scripts import Script
from sharedroutes.registry.store_parts import Admin, KeyValues
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.registry.probes import SCRIPTS
from tests.registry.servers import BINARIES
from tests.support import wait_until

NAMESPACE: Final = "routes.of:test"
CONFIG: Final = RegistryConfig(namespace=NAMESPACE, sweeper_lease_s=0.05)
PASSWORD: Final = "correct-horse"  # noqa: S105 - of a server that lives for one test
RANKS: Final = tuple(Role)


@dataclass(frozen=True, slots=True)
class Stage:
    """A registry on which an operation is tried."""

    store: RouteStore
    """As the user in question."""

    owner: RouteStore
    """As a user who may do everything."""

    admin: redis.Redis
    role: Role
    read_only_patterns: bool


@pytest.fixture(scope="module", params=[name for name, path in BINARIES.items() if path])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """Return each server that this machine has, with keyspace events on."""
    options = ("--hz", "500", "--notify-keyspace-events", "Kgxe")
    with EmbeddedServer(*options, binary=BINARIES[request.param]) as server:
        yield server


@pytest.fixture
def admin(server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        yield client
        for user in client.acl_users():
            if user != "default":
                client.acl_deluser(user)


def apply(admin: redis.Redis, role: Role, **options: Any) -> str:
    """Make a user with the rules of a role, as its line says; return its name."""
    line = acl_rules(NAMESPACE, role, password=f">{PASSWORD}", **options)
    assert admin.execute_command(*line.split(" ")) in (True, b"OK")
    return line.split(" ")[2]


def url_of(server: EmbeddedServer, user: str) -> str:
    return f"redis://{user}:{PASSWORD}@127.0.0.1:{server.port}/0"


@pytest.fixture(params=list(Role))
def role(request: pytest.FixtureRequest) -> Role:
    found: Role = request.param
    return found


@pytest.fixture(
    params=[(role, True) for role in Role] + [(role, False) for role in Role if role is not Role.HINTER],
    ids=lambda param: f"{param[0]}-{'read-only patterns' if param[1] else '6.2'}",
)
def stage(request: pytest.FixtureRequest, server: EmbeddedServer, admin: redis.Redis) -> Iterator[Stage]:
    role, read_only_patterns = request.param
    user = apply(admin, role, user=f"u-{role}", read_only_patterns=read_only_patterns)
    with (
        RouteStore.from_url(url_of(server, user), CONFIG) as store,
        RouteStore.from_url(server.url, CONFIG) as owner,
    ):
        yield Stage(store, owner, admin, role, read_only_patterns)


def end_lease(stage: Stage) -> None:
    """Register a broker and let its lease end, unannounced."""
    stage.owner.register(broker(), topics(2))
    stage.admin.delete(stage.owner.keys.lease("broker-a", 0))
    stage.admin.zadd(stage.owner.keys.deadlines, {"broker-a:0": 1})


def register(stage: Stage) -> None:
    held = stage.store.register(broker(), topics(3))
    stage.store.register(broker(), topics(1), held=held)
    stage.store.register(broker(broker_id=1, address=OTHER_ADDRESS), [])
    stage.store.register(broker(), topics(2, queues=8))
    assert set(stage.owner.routes(["t0", "t1", "t2"])) == {"t0", "t1"}


def register_topic(stage: Stage) -> None:
    held = stage.owner.register(broker(), topics(1))
    stage.store.run(plans.register_topic(stage.store.config, held, topics(1, first=7)[0]))
    assert stage.owner.topics() == ["t0", "t7"]


def heartbeat(stage: Stage) -> None:
    assert stage.store.heartbeat(stage.owner.register(broker(), topics(1))) is LeaseStatus.OK


def unregister(stage: Stage) -> None:
    assert stage.store.unregister(stage.owner.register(broker(), topics(1)))


def vouch(stage: Stage) -> None:
    stage.owner.register(broker(), topics(1))
    store, replica = stage.store, broker()
    assert store.run(fronts.front_beat(store.config, "f1", 60_000)).fronts == ("f1",)
    assert isinstance(store.run(fronts.vouch(store.config, replica, "f1.1", anew=True)), fronts.Vouched)
    assert store.run(fronts.watched(store.keys))
    assert store.run(fronts.id_at(store.keys, "broker-a", ADDRESS)) == 0
    assert not store.run(fronts.release(store.config, replica, ["f1.1"], fronts.Ending.CLOSED, "closed"))


def sweep(stage: Stage) -> None:
    end_lease(stage)
    assert stage.store.sweep("us").expired == (("broker-a", 0),)


def expire(stage: Stage) -> None:
    end_lease(stage)
    assert stage.store.expire("broker-a", 0)


def lookup(stage: Stage) -> None:
    stage.owner.register(broker(), topics(2))
    stage.owner.kv.put("ORDER_TOPIC_CONFIG", "t0", "broker-a:4")
    found = stage.store.lookup(["t0", "no-such"])
    assert list(found.routes()) == ["t0"]
    assert found.missing == ("no-such",)
    assert list(stage.store.routes(["t1"])) == ["t1"]


def listings(stage: Stage) -> None:
    held = stage.owner.register(broker(), topics(2), version=DataVersion(2))
    store = stage.store
    assert store.topics() == ["t0", "t1"]
    assert store.topics("cluster-1") == ["t0", "t1"]
    assert store.run(plans.system_topics(store.keys)).found == ["broker-a", "cluster-1"]
    assert [found.broker_name for found in store.brokers()] == ["broker-a"]
    assert list(store.cluster_info().brokers) == ["broker-a"]
    group = store.member_group("broker-a")
    assert group is not None
    assert group.broker_addrs == {0: ADDRESS}
    owner = store.owner("broker-a")
    assert owner is not None
    assert owner.epoch == held.epoch
    assert store.run(plans.query_data_version(store.keys, "broker-a", 0, DataVersion(1))) == (
        True,
        DataVersion(2),
    )


def feed(stage: Stage) -> None:
    stage.owner.register(broker(), topics(1))
    assert stage.store.changes_since().changes
    assert len(stage.store.history().records) == stage.store.history_bounds().entries == 2
    with closing(stage.store.doorbell()) as doorbell:
        assert doorbell.wait(5.0) == b""
        stage.owner.register(broker(), topics(2))
        assert doorbell.wait(5.0)


def follow(stage: Stage) -> None:
    stage.owner.register(broker(), topics(1))
    with closing(stage.store.follow()) as follower:
        follower.start()
        first = next(iter(follower))
    assert isinstance(first, Reset)


def lease_events(stage: Stage) -> None:
    with closing(stage.store.lease_events()) as events:
        events.wait(0.01)
        stage.owner.unregister(stage.owner.register(broker(), topics(1)))
        assert events.wait(5.0) == ("broker-a", 0)


def kv_read(stage: Stage) -> None:
    stage.owner.kv.put("ns", "key", "value")
    kv = stage.store.kv
    assert kv.get("ns", "key") == "value"
    assert kv.entries("ns") == {"key": "value"}
    assert kv.entries("no-such") is None
    assert kv.namespaces() == ["ns"]


def kv_write(stage: Stage) -> None:
    assert stage.store.kv.put("ns", "key", "value")
    assert stage.store.kv.delete("ns", "key")


def hint(stage: Stage) -> None:
    assert stage.store.hint("client-1", ["broker-a", "broker-b"], ttl_s=60.0) == {}
    assert stage.store.hint("client-1", ["broker-a"], ttl_s=60.0) == {}
    assert stage.owner.hints() == {"broker-a": {"client-1"}}


def hints(stage: Stage) -> None:
    stage.owner.hint("client-1", ["broker-a"], ttl_s=60.0)
    assert stage.store.hints() == {"broker-a": {"client-1"}}


def operate(stage: Stage) -> None:
    stage.owner.register(broker(), topics(2))
    assert stage.store.admin.wipe_write_perm("broker-a") == 2
    assert stage.store.admin.add_write_perm("broker-a") == 2
    assert stage.store.admin.delete_topic("t0") == ("broker-a",)
    assert stage.owner.topics() == ["t1"]
    assert stage.store.admin.withdraw(broker(), reason="drained")
    assert stage.owner.topics() == []


def forget(stage: Stage) -> None:
    stage.owner.unregister(stage.owner.register(broker(), topics(2)))
    assert stage.store.admin.forget("broker-a") == 2
    assert stage.admin.exists(stage.owner.keys.broker("broker-a")) == 0


def repair(stage: Stage) -> None:
    keys, admin = stage.owner.keys, stage.admin
    stage.owner.register(broker(), topics(4))
    stage.owner.register(broker("broker-b"), topics(4))
    assert list(stage.store.admin.verify()) == []
    admin.delete(keys.topic("t0"))
    admin.set(keys.topic("t9"), "broker-a 1 1 6 0")
    admin.srem(keys.topics, "t1")
    admin.sadd(keys.topics, "no-such")
    admin.hdel(keys.brokers, "broker-a")
    admin.zrem(keys.deadlines, "broker-a:0")
    admin.expire(keys.broker_topics("broker-a"), 1_000)
    admin.delete(keys.schema)
    assert len(list(stage.store.admin.verify())) >= 7
    assert all(done.mended for done in stage.store.admin.rebuild())
    assert list(stage.store.admin.verify()) == []


def export(stage: Stage) -> None:
    stage.owner.register(broker(), topics(2))
    stage.owner.kv.put("ns", "key", "value")
    assert len(list(stage.store.admin.export())) > 3


def import_(stage: Stage) -> None:
    stage.owner.register(broker(), topics(2))
    stage.owner.kv.put("ns", "key", "value")
    lines = list(stage.owner.admin.export())
    stage.admin.flushall()
    stage.store.admin.import_(lines)
    assert stage.owner.kv.get("ns", "key") == "value"
    assert stage.admin.scard(stage.owner.keys.topics) == 2


def health(stage: Stage) -> None:
    stage.owner.register(broker(), topics(2))
    stage.owner.kv.put("ns", "key", "value")
    report = stage.store.health()
    unknown = [finding for finding in report.findings if finding.text.startswith("unknown")]
    if unknown:
        raise StoreRefused(f"{unknown}")


OPERATIONS: Final[dict[Callable[[Stage], None], tuple[Role, tuple[str, ...]]]] = {
    lookup: (Role.READER, ("lookup", "routes")),
    listings: (Role.READER, ("topics", "brokers", "cluster_info", "member_group", "owner")),
    feed: (Role.READER, ("changes_since", "doorbell", "history", "history_bounds")),
    follow: (Role.READER, ("follow",)),
    kv_read: (Role.READER, ("kv.get", "kv.entries", "kv.namespaces")),
    hints: (Role.READER, ("hints",)),
    hint: (Role.HINTER, ("hint",)),
    register: (Role.AGENT, ("register",)),
    register_topic: (Role.AGENT, ()),
    heartbeat: (Role.AGENT, ("heartbeat",)),
    unregister: (Role.AGENT, ("unregister",)),
    sweep: (Role.AGENT, ("sweep",)),
    expire: (Role.AGENT, ("expire",)),
    lease_events: (Role.AGENT, ("lease_events",)),
    vouch: (Role.FRONT, ()),
    kv_write: (Role.FRONT, ("kv.put", "kv.delete")),
    operate: (
        Role.AGENT,
        ("admin.wipe_write_perm", "admin.add_write_perm", "admin.delete_topic", "admin.withdraw"),
    ),
    forget: (Role.AGENT, ("admin.forget",)),
    import_: (Role.FRONT, ("admin.import_",)),
    export: (Role.READER, ("admin.export",)),
    repair: (Role.ADMIN, ("admin.verify", "admin.rebuild")),
    health: (Role.ADMIN, ("health",)),
}
"""What each operation is tried by, and the least role that Redis lets do it.

`operate` is meant for fronts; it writes the same keys with the same commands as an agent does.
"""

OF_NO_ROLE: Final = {"at_replicas", "close", "from_client", "from_url", "run"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_operation_of_the_store_is_tried() -> None:
    tried = [name for _, names in OPERATIONS.values() for name in names]
    there = public(RouteStore) | {f"kv.{name}" for name in public(KeyValues)}
    there |= {f"admin.{name}" for name in public(Admin)}
    assert sorted(tried) == sorted(there - OF_NO_ROLE)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_a_role_may_do_what_it_is_for_and_nothing_above_it(
    stage: Stage, operation: Callable[[Stage], None]
) -> None:
    least, _ = OPERATIONS[operation]
    if operation in (kv_read, export) and stage.role is Role.AGENT and not stage.read_only_patterns:
        least = Role.FRONT  # Redis 6.2 cannot let it read what it must not write
    if RANKS.index(stage.role) >= RANKS.index(least):
        operation(stage)
    else:
        with pytest.raises(StoreRefused):
            operation(stage)


REFUSED: Final = (
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("KEYS", "*"),
    ("CONFIG", "SET", "maxmemory", "1mb"),
    ("ACL", "LIST"),
    ("SHUTDOWN",),
    ("REPLICAOF", "NO", "ONE"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("SCRIPT", "FLUSH"),
    ("SUBSCRIBE", "another"),
    ("GET", "{other}:topic:t0"),
    ("GET", "routes.of:test:topic:t0"),
    ("HGETALL", "{other}:broker:b"),
)


def test_nobody_may_do_what_no_role_is_for(server: EmbeddedServer, admin: redis.Redis, role: Role) -> None:
    with redis.Redis.from_url(url_of(server, apply(admin, role))) as client:
        for command in REFUSED:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)


@pytest.mark.parametrize(
    ("role", "command"),
    [
        (Role.READER, ("SET", "{routes.of:test}:topic:t0", "1")),
        (Role.READER, ("EVAL", "return 1", "0")),
        (Role.READER, ("SCAN", "0")),
        (Role.READER, ("PUBLISH", "{routes.of:test}:changes", "1")),
        (Role.AGENT, ("SET", "{other}:topic:t0", "1")),
        (Role.AGENT, ("EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "{other}:topic:t0")),
        (Role.AGENT, ("HSET", "{routes.of:test}:kv:ns", "key", "value")),
        (Role.AGENT, ("PUBLISH", "{other}:changes", "1")),
        (Role.AGENT, ("PSUBSCRIBE", "*")),
        (Role.AGENT, ("INFO",)),
        (Role.FRONT, ("SET", "{other}:topic:t0", "1")),
        (Role.FRONT, ("CONFIG", "GET", "save")),
        (Role.ADMIN, ("SET", "{other}:topic:t0", "1")),
        (Role.ADMIN, ("MEMORY", "USAGE", "{other}:topic:t0")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_is_not_its_business_is_refused(
    server: EmbeddedServer, admin: redis.Redis, role: Role, command: tuple[str, ...]
) -> None:
    with redis.Redis.from_url(url_of(server, apply(admin, role))) as client:
        with pytest.raises(redis.ResponseError, match=r"no permission|No permission|NOPERM"):
            client.execute_command(*command)
        assert admin.keys("{*}:*") == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_who_may_run_scripts_may_do_all_that_they_do(script: Script) -> None:
    code = re.sub(r"--[^\n]*", "", script.source)
    code = re.sub(r"function attempt\(.*?\nend\n", "", code, count=1, flags=re.DOTALL)  # runs what it is told
    calls = re.findall(r"(?:redis\.p?call\(|\battempt\(\s*'\w+',)\s*('\w+')?", code)
    assert len(calls) == len(re.findall(r"redis\.p?call\(|\battempt\(", code))
    assert all(calls), "a command that is not written out"
    called = {name.strip("'").lower() for name in calls}
    for role in (Role.AGENT, Role.FRONT, Role.ADMIN):
        assert called <= commands_of(role)


def test_each_role_has_all_that_the_one_before_it_has() -> None:
    for less, more in itertools.pairwise(RANKS):
        assert commands_of(less) <= commands_of(more)


def test_a_line_takes_the_place_of_what_the_user_had(server: EmbeddedServer, admin: redis.Redis) -> None:
    admin.execute_command("ACL", "SETUSER", "u", "on", "nopass", "allkeys", "allchannels", "+@all")
    apply(admin, Role.READER, user="u")
    with redis.Redis.from_url(url_of(server, "u")) as client:
        assert client.get(Keys(NAMESPACE).topic("t0")) is None
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get("{other}:topic:t0")
    stranger = redis.Redis(port=server.port, username="u", password="another")  # noqa: S106
    with closing(stranger), pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_a_line_whose_placeholder_was_forgotten_is_refused(admin: redis.Redis) -> None:
    line = acl_rules(NAMESPACE, Role.READER)
    assert PASSWORD_PLACEHOLDER in line
    with pytest.raises(redis.ResponseError, match="ACL SETUSER modifier"):
        admin.execute_command(*line.split(" "))
    assert admin.acl_users() == ["default"]


def test_the_password_can_be_given_as_its_digest(server: EmbeddedServer, admin: redis.Redis) -> None:
    digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
    line = acl_rules(NAMESPACE, Role.READER, user="u", password=f"#{digest}")
    admin.execute_command(*line.split(" "))
    with redis.Redis.from_url(url_of(server, "u")) as client:
        assert client.ping()


def test_keyspace_events_of_another_database_need_its_number(
    server: EmbeddedServer, admin: redis.Redis
) -> None:
    user = apply(admin, Role.AGENT, database=3)
    url = url_of(server, user)
    with RouteStore.from_url(url, CONFIG) as store:
        events = store.lease_events()
        with closing(events), pytest.raises(StoreRefused):
            wait_until(lambda: events.wait(0.05), description="the subscription is refused")
    with (
        RouteStore.from_url(url.removesuffix("0") + "3", CONFIG) as store,
        closing(store.lease_events()) as events,
    ):
        assert events.wait(0.01) is None
        store.unregister(store.register(broker(), topics(1)))
        assert events.wait(5.0) == ("broker-a", 0)


def test_a_user_of_a_cluster_may_ask_where_keys_are(server: EmbeddedServer, admin: redis.Redis) -> None:
    for cluster in (False, True):
        user = apply(admin, Role.READER, cluster=cluster)
        with redis.Redis.from_url(url_of(server, user)) as client:
            with pytest.raises(redis.ResponseError) as refused:
                client.execute_command("CLUSTER", "SLOTS")
            assert isinstance(refused.value, redis.exceptions.NoPermissionError) is not cluster
