"""Faults of single keys: deleted, and written over by somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sharedroutes.registry import StoreUnavailable
from tests.faults.checker.history import now_us
from tests.faults.matrix.auditor import KEYS
from tests.faults.matrix.fleet import CHURN, QUEUES
from tests.faults.matrix.kinds.kind import UNTIL_READ_S, UNTIL_TOLD_S, WHOLE_STORE, Effect, Site, fault
from tests.faults.matrix.settings import ALONE, BOUNDS, CALL_S, HEARTBEAT_S, LEASE_S, ON, SENT_TO, TOPICS

_LASTS_S: Final = (1.0, 4.0)
_LISTED_S: Final = 10 * HEARTBEAT_S + 2 * CALL_S
"""One heartbeat in ten looks whether its broker and a topic are listed; then the table is written."""

_BEATEN_S: Final = 3 * HEARTBEAT_S + CALL_S
_HINTED_S: Final = 1.0
_UNTIL_REREAD_S: Final = (BOUNDS.reread_ms / 1_000 + 0.5, BOUNDS.reread_ms / 1_000 + 1.0)


def _listings() -> list[str]:
    return [KEYS.brokers, KEYS.topics, KEYS.deadlines, KEYS.schema, KEYS.sweeper, KEYS.fronts, KEYS.prober]


@fault("keys")
def delete_lease(site: Site) -> Iterator[Effect]:
    """Somebody deletes a lease."""
    key = KEYS.lease(site.rng.choice(sorted(ON)), 0)
    site.auditor.at_primary(("DEL", key))
    yield Effect(key, 0.2, WHOLE_STORE, loses=True)


@fault("keys")
def delete_table(site: Site) -> Iterator[Effect]:
    """Somebody deletes the group or the table of a broker, and an operator rebuilds what is left."""
    name = site.rng.choice(sorted(ON))
    key = site.rng.choice([KEYS.broker(name), KEYS.broker_topics(name)])
    site.auditor.at_primary(("DEL", key))
    yield Effect(key, 1.0, WHOLE_STORE, (name,), loses=True)
    site.rebuild()


@fault("keys")
def delete_route(site: Site) -> Iterator[Effect]:
    """Somebody deletes a topic from the route index, and `rebuild` brings it back."""
    topic = site.rng.choice(TOPICS)
    site.auditor.at_primary(("DEL", KEYS.topic(topic)))
    yield Effect(topic, 1.0, WHOLE_STORE, removes=(topic,), loses=True)
    site.rebuild()


@fault("processes")
def lost_route(site: Site) -> Iterator[Effect]:
    """Somebody deletes a topic from the route index, which comes back when its agent begins anew."""
    agent = site.fleet.agents["agent-a"]
    site.auditor.at_primary(("DEL", KEYS.topic(ALONE)))
    agent.kill()
    try:
        yield Effect(ALONE, 0.2, WHOLE_STORE, removes=(ALONE,), loses=True)
    finally:
        site.start(agent)


@fault("keys")
def delete_listing(site: Site) -> Iterator[Effect]:
    """Somebody deletes what only lists, and `rebuild` brings it back."""
    key = site.rng.choice(_listings())
    site.auditor.at_primary(("DEL", key))
    yield Effect(key, site.lasts(_LASTS_S), WHOLE_STORE, loses=True)
    site.rebuild()


@fault("keys", "processes", "owners", "network", "store")  # who does not reach the store brings nothing back
def lost_listing(site: Site) -> Iterator[Effect]:
    """Somebody deletes the lists of brokers and topics; agents and fronts bring back what is theirs."""
    reads = (("HLEN", KEYS.brokers), ("SCARD", KEYS.topics))
    before = site.auditor.at_primary(*reads, ("DEL", KEYS.brokers, KEYS.topics)) or []
    who = [*site.fleet.agents.values(), *site.fleet.fronts.values()]
    promised = site.promised(
        "the lists are whole", _LISTED_S, lambda: site.auditor.at_primary(*reads) == before[:-1], *who
    )
    yield Effect(f"{KEYS.brokers}, {KEYS.topics}", 0.2, WHOLE_STORE, loses=True, details=promised)
    site.rebuild()


@fault("keys", "processes", "owners", "network", "store")
def lost_deadlines(site: Site) -> Iterator[Effect]:
    """Somebody deletes the deadlines; heartbeats bring them back."""
    read = ("ZCARD", KEYS.deadlines)
    before = site.auditor.at_primary(read, ("DEL", KEYS.deadlines)) or []
    who = [*site.fleet.agents.values(), *site.fleet.fronts.values()]
    promised = site.promised(
        "the deadlines are whole", _BEATEN_S, lambda: site.auditor.at_primary(read) == before[:-1], *who
    )
    yield Effect(KEYS.deadlines, 0.2, WHOLE_STORE, loses=True, details=promised)
    site.rebuild()


@fault("keys")
def corrupt_listing(site: Site) -> Iterator[Effect]:
    """Somebody puts something else in the place of what only lists; then it is moved away."""
    key = site.rng.choice([*_listings(), KEYS.changes])
    site.auditor.at_primary(("DEL", key), ("LPUSH", key, "foreign"))
    try:
        yield Effect(key, site.lasts(_LASTS_S), WHOLE_STORE, loses=True)
    finally:
        site.auditor.at_primary(("DEL", key))
        site.rebuild()


@fault("keys", "processes")
def corrupt_deadlines(site: Site) -> Iterator[Effect]:
    """Somebody puts something else in the place of the deadlines, and a host dies; then it is moved away."""
    host = [site.fleet.agents["agent-a"], site.fleet.brokers["broker-a"]]
    site.auditor.at_primary(("DEL", KEYS.deadlines), ("LPUSH", KEYS.deadlines, "foreign"))
    for program in host:
        program.kill()
    names = tuple(program.name for program in host)
    try:
        yield Effect(KEYS.deadlines, site.lasts(UNTIL_TOLD_S), names, ("broker-a",))
    finally:
        site.auditor.at_primary(("DEL", KEYS.deadlines))
        site.start(*host)
        site.rebuild()


@fault("keys", "files")  # who writes its table meanwhile, and puts the row back, is contradicted
def corrupt_route(site: Site) -> Iterator[Effect]:
    """A topic of the route index is overwritten with garbage, or a list stands there; then it is put back."""
    return _corrupt_route(site)


@fault("keys", "files", "follower", "store")
def corrupt_and_trim(site: Site) -> Iterator[Effect]:
    """The same, and the stream is trimmed to nothing: a follower begins anew, and looks again later."""
    return _corrupt_route(site, ("XTRIM", KEYS.changes, "MAXLEN", 0))


def _corrupt_route(site: Site, *besides: tuple[str | bytes | int, ...]) -> Iterator[Effect]:
    topic = site.rng.choice(TOPICS)
    key = KEYS.topic(topic)
    spoil: tuple[str | bytes, ...] = site.rng.choice(
        [("SET", key, b"\xff garbage"), ("LPUSH", key, "foreign")]
    )
    before = site.auditor.at_primary(("GET", key), ("DEL", key), spoil, *besides)
    try:
        yield Effect(topic, site.lasts(UNTIL_READ_S), WHOLE_STORE, loses=True)
    finally:
        put_back = [("SET", key, before[0])] if before and isinstance(before[0], bytes) else []
        site.auditor.at_primary(("DEL", key), *put_back)
        site.rebuild()


@fault("keys")
def corrupt_entry(site: Site) -> Iterator[Effect]:
    """A topic leaves the route index, and what the stream and the doorbell say of it cannot be read."""
    site.rest()  # a front to which a broker comes back looks at the index, and puts the topic back
    topic = site.rng.choice([name for name in TOPICS if name != SENT_TO])
    site.auditor.at_primary(
        ("DEL", KEYS.topic(topic)),
        ("XADD", KEYS.changes, "*", "c", "of a newer release"),
        ("PUBLISH", KEYS.changes, "of a newer release"),
    )
    yield Effect(topic, site.lasts(_UNTIL_REREAD_S), removes=(topic,), loses=True)
    site.rebuild()


@fault("keys", "follower", "network", "store")  # a follower that does not reach the store does not notice
def corrupt_stream(site: Site) -> Iterator[Effect]:
    """A list is in the place of the stream while a broker creates a topic; the stream is put back."""
    aside, topic = f"{KEYS.changes}:aside", f"{CHURN}{site.rng.getrandbits(32):x}"
    began_us = now_us()
    site.auditor.at_primary(("RENAME", KEYS.changes, aside), ("LPUSH", KEYS.changes, "foreign"))
    try:
        site.fleet.churn = (topic,)
        site.fleet.write_topics()
        site.wait_at_most(
            LEASE_S, lambda: site.auditor.at_primary(("EXISTS", KEYS.topic(topic))) == [1], "a topic is there"
        )
        site.fleet.write_topics(queues=2 * QUEUES)

        def have_heard() -> bool:
            return all(site.fleet.counts(client, "broker-a", 2 * QUEUES) for client in site.fleet.clients)

        details = site.promised("clients hear of a change without the stream", CALL_S, have_heard)
        lasts_s = site.lasts(_LASTS_S)
        yield Effect(KEYS.changes, lasts_s, WHOLE_STORE, loses=True, details=details, began_us=began_us)
    finally:
        site.auditor.at_primary(("DEL", KEYS.changes), ("RENAME", aside, KEYS.changes))
        site.fleet.write_topics()


@fault("keys", "files")
def corrupt_table(site: Site) -> Iterator[Effect]:
    """A list is in the place of the table of a broker that changes its topics: its agent keeps the lease."""
    name, key, began_us = "broker-a", KEYS.broker_topics("broker-a"), now_us()
    aside, before = f"{key}:aside", site.auditor.lease(name)
    site.auditor.at_primary(("RENAME", key, aside), ("LPUSH", key, "foreign"))
    try:
        site.fleet.write_topics(queues=2 * QUEUES)
        site.let_pass(LEASE_S + 1.0, "a lease has ended that nobody renews")
        promised = site.promised(
            "an agent that cannot write keeps its lease", 1.0, lambda: site.auditor.lease(name) == before
        )
        yield Effect(key, 0.2, WHOLE_STORE, loses=True, details=promised, began_us=began_us)
    finally:
        site.auditor.at_primary(("DEL", key), ("RENAME", aside, key))
        site.fleet.write_topics()


@fault("keys")
def forgotten_hint(site: Site) -> Iterator[Effect]:
    """A client says whom it cannot reach, and says no more: that ends by itself."""
    began_us = now_us()
    with suppress(StoreUnavailable), site.registry() as registry:
        registry.hint("guest", ["broker-a"], ttl_s=_HINTED_S)

    def is_over() -> bool:
        return site.auditor.at_primary(("EXISTS", KEYS.hints)) == [0]

    promised = site.promised("hints end by themselves", _HINTED_S + 1.0, is_over)
    yield Effect(KEYS.hints, 0.2, details=promised, began_us=began_us)


@fault("keys")
def corrupt_broker(site: Site) -> Iterator[Effect]:
    """Somebody puts a list in the place of a broker's lease, group or table; then it is moved away."""
    name = site.rng.choice(sorted(ON))
    key = site.rng.choice([KEYS.lease(name, 0), KEYS.broker(name), KEYS.broker_topics(name)])
    site.auditor.at_primary(("DEL", key), ("LPUSH", key, "foreign"))
    try:
        yield Effect(key, site.lasts(_LASTS_S), WHOLE_STORE, (name,), loses=True)
    finally:
        site.auditor.at_primary(("DEL", key))
        site.rebuild()
