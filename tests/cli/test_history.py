"""`history`, `table`, `diff` and `before`: what an incident asks of the live stream."""

from __future__ import annotations

import getpass
import socket

import pytest
import redis

from sharedroutes.registry import Broker, ChangeKind, RegistryConfig, RouteStore, TopicConfig
from sharedroutes.registry.acl import Role, acl_rules
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import server_time
from tests.cli.terminal import document, rows, run
from tests.support import wait_until

CHANGES = Keys("sharedroutes").changes
PASSWORD_RULE = ">secret"  # noqa: S105
ME = f"{getpass.getuser()}@{socket.gethostname()}"


def clock_ms(store: RouteStore) -> int:
    """Return a moment of the store's clock that no change before it, and none after it, shares."""
    last = store.history_bounds().last_id.partition("-")[0]
    wait_until(lambda: server_ms(store) > int(last), description="the next ms")
    found = server_ms(store)
    wait_until(lambda: server_ms(store) > found, description="the next ms")
    return found


def server_ms(store: RouteStore) -> int:
    now_us = store.run(server_time())
    assert isinstance(now_us, int)
    return now_us // 1_000


@pytest.fixture
def incident(redis_url: str, store: RouteStore) -> tuple[int, int]:
    """Return moments before and after one broker ended, and another one was wiped by an operator."""
    with RouteStore.from_url(redis_url, RegistryConfig(actor="agent at host-1")) as agent:
        held = agent.register(
            Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders"), TopicConfig("audit")]
        )
        agent.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders")])
        before = clock_ms(store)
        agent.unregister(held, reason="agent stopped")
        assert run(redis_url, "wipe", "broker-b").exit_code == 0
    return before, clock_ms(store)


def test_a_topics_history_has_what_happened_to_its_brokers_and_who_is_left(
    redis_url: str, incident: tuple[int, int]
) -> None:
    found = document(redis_url, "history", "topic", "orders")
    assert [(row["change"], row["broker"], row["serving"]) for row in found] == [
        ("topics", "broker-a", []),
        ("up", "broker-a", ["broker-a"]),
        ("topics", "broker-b", ["broker-a"]),
        ("up", "broker-b", ["broker-a", "broker-b"]),
        ("down", "broker-a", ["broker-b"]),
        ("wiped", "broker-b", []),
    ]
    assert [row["by"] for row in found] == ["agent at host-1"] * 5 + [f"sharedroutes wipe of {ME}"]
    of_audit = document(redis_url, "history", "topic", "audit", "--since", str(incident[0]))
    assert [(row["change"], row["what"], row["serving"]) for row in of_audit] == [
        ("down", "agent stopped", [])
    ]


def test_a_brokers_history_is_of_the_time_that_is_asked_for(
    redis_url: str, incident: tuple[int, int]
) -> None:
    before, _ = incident
    done = run(redis_url, "history", "broker", "broker-a", "--until", str(before))
    assert [row[1:3] for row in rows(done)] == [["topics", "broker-a"], ["up", "broker-a"]]
    since = document(redis_url, "history", "broker", "broker-a", "--since", str(before))
    assert [(row["change"], row["state"], row["topics"]) for row in since] == [("down", "away", 2)]


def test_a_table_is_as_it_was(redis_url: str, incident: tuple[int, int]) -> None:
    before, after = incident
    assert rows(run(redis_url, "table", "--at", str(before))) == [
        ["audit", "broker-a", "writable", "0", "10.0.0.1:10911"],
        ["orders", "broker-a", "writable", "0", "10.0.0.1:10911"],
        ["orders", "broker-b", "writable", "0", "10.0.0.2:10911"],
    ]
    assert document(redis_url, "table", "--at", str(after), "--topic", "orders") == [
        {"topic": "orders", "broker": "broker-a", "state": "away", "replicas": []},
        {"topic": "orders", "broker": "broker-b", "state": "wiped", "replicas": ["0 10.0.0.2:10911"]},
    ]


def test_a_difference_names_brokers_and_topics(
    redis_url: str, store: RouteStore, incident: tuple[int, int]
) -> None:
    before, after = incident
    store.admin.delete_topic("audit")
    found = document(redis_url, "diff", "--from", str(before))
    assert [(row["broker"], row["topic"], row["before"], row["after"]) for row in found] == [
        ("broker-a", "", "writable, 0 10.0.0.1:10911", "away"),
        ("broker-a", "audit", "held", "absent"),
        ("broker-b", "", "writable, 0 10.0.0.2:10911", "wiped, 0 10.0.0.2:10911"),
    ]
    assert len(document(redis_url, "diff", "--from", str(before), "--to", str(after))) == 2
    assert "between" not in run(redis_url, "diff", "--from", str(before)).stdout


def test_a_difference_tells_what_went_away_and_came_back(redis_url: str, store: RouteStore) -> None:
    audit = TopicConfig("audit")
    held = store.register(Broker("broker-c", "10.0.0.3:10911"), [audit])
    before = clock_ms(store)
    store.unregister(held)
    store.register(Broker("broker-c", "10.0.0.3:10911"), [])
    store.register(Broker("broker-c", "10.0.0.3:10911"), [audit])
    found = document(redis_url, "diff", "--from", str(before))
    up = "writable, 0 10.0.0.3:10911"
    assert [[*row.values()] for row in found] == [
        ["broker-c", "", up, up, "away"],
        ["broker-c", "audit", "held", "held", "absent"],
    ]


def test_what_changed_before_it_broke_is_told_worst_first(redis_url: str, incident: tuple[int, int]) -> None:
    before, _ = incident
    found = document(redis_url, "before", "now", "--minutes", "5")
    assert [(row["change"], row["broker"], row["out"], row["fewer"], row["hit"]) for row in found[:3]] == [
        ("down", "broker-a", 1, 1, 2),
        ("wiped", "broker-b", 1, 0, 1),
        ("up", "broker-a", 0, 0, 2),
    ]
    assert [row["topics"] for row in found[:2]] == [["audit", "orders"], ["orders"]]
    assert rows(run(redis_url, "before", str(before), "--minutes", "5"))


def test_a_change_of_no_broker_has_no_broker_id(redis_url: str, store: RouteStore) -> None:
    store.kv.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")
    (found,) = document(redis_url, "before", "now", "--minutes", "5")
    assert (found["change"], found["broker"], found["id"]) == ("kv", "", None)
    assert " - " in run(redis_url, "before", "now", "--minutes", "5").output


def test_a_stream_that_was_trimmed_says_from_when_on_it_is_known(
    redis_url: str, admin: redis.Redis, store: RouteStore, incident: tuple[int, int]
) -> None:
    before, _ = incident
    admin.xtrim(CHANGES, maxlen=1, approximate=False)
    for command in (["table", "--at"], ["before"], ["diff", "--from"]):
        done = run(redis_url, *command, str(before))
        assert (done.exit_code, done.stdout) == (1, "")
        assert "the change stream reaches back to 20" in done.stderr
        assert "pipeline ingest" in done.stderr
    of_broker = ["history", "broker", "broker-b", "--since", str(before)]
    for window in (of_broker, ["before", "now", "--minutes", "5"]):
        done = run(redis_url, *window)
        assert (done.exit_code, len(done.stdout.splitlines())) == (0, 2)  # what is left is told
        assert done.stderr.startswith("the change stream reaches back to 20")
    assert run(redis_url, *of_broker, "--until", str(before)).exit_code == 1
    assert rows(run(redis_url, "history", "broker", "broker-b"))
    assert len(rows(run(redis_url, "table", "--at", "now"))) == 3


def test_a_store_that_was_emptied_says_from_when_on_its_past_is_known(
    redis_url: str, admin: redis.Redis, store: RouteStore, incident: tuple[int, int]
) -> None:
    before, _ = incident
    admin.flushall()
    store.register(Broker("broker-c", "10.0.0.3:10911"), [TopicConfig("orders")])
    of_orders = ["history", "topic", "orders", "--since"]
    for command in (["table", "--at"], ["before"], ["diff", "--from"], of_orders):
        done = run(redis_url, *command, str(before))
        assert done.exit_code == 0
        assert "the change stream begins at 20" in done.stderr
        assert "what was before is not known" in done.stderr
    assert run(redis_url, "table", "--at", "now").stderr == ""


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["table", "--at", "25:05"], "'--at': '25:05' is no time (hour must be in 0..23): write 2h"),
        (["before", "soon"], "'TIME': 'soon' is no time: write 2h"),
        (["history", "topic", "orders", "--since", "2x"], "'--since': '2x' is no time"),
        (["diff", "--from", "2h", "--to", "2099-01-01"], "'--to': '2099-01-01' is in the future"),
        (["diff", "--from", "1h", "--to", "2h"], "'--from': '1h' is later than '2h'"),
        (["before", "now", "--minutes", "0"], "'--minutes': 0"),
    ],
)
def test_a_wrong_time_is_named(redis_url: str, words: list[str], problem: str) -> None:
    done = run(redis_url, *words)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_nothing_is_said_of_nothing(redis_url: str) -> None:
    for words in (["before", "now"], ["table", "--at", "1h"]):
        done = run(redis_url, *words)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "nothing\n")


@pytest.mark.usefixtures("incident")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["history", "topic", "ordesr"], "a topic 'ordesr'; did you mean orders?"),
        (["history", "broker", "nowhere"], "a broker 'nowhere'"),
        (["table", "--at", "now", "--topic", "nowhere"], "a topic 'nowhere'"),
    ],
)
def test_a_name_of_which_nothing_is_known_is_said_to_be_none(
    redis_url: str, admin: redis.Redis, words: list[str], said: str
) -> None:
    done = run(redis_url, *words)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"Error: nothing is known of {said}\n")
    as_json = run(redis_url, *words, "--output", "json")
    assert (as_json.exit_code, as_json.stdout) == (1, "[]\n")
    admin.xtrim(CHANGES, maxlen=1, approximate=False)
    done = run(redis_url, *words)
    assert f"nothing is known of {said.partition(';')[0]}" in done.stderr
    assert "the change stream reaches back to 20" in done.stderr


def test_what_is_known_of_others_is_told_beside_a_name_that_is_not(
    redis_url: str, incident: tuple[int, int]
) -> None:
    done = run(redis_url, "table", "--at", "now", "--topic", "audit", "--topic", "nowhere")
    assert (done.exit_code, len(done.stdout.splitlines())) == (1, 2)
    quiet = run(redis_url, "history", "broker", "broker-a", "--since", str(incident[1]))
    assert (quiet.exit_code, quiet.stderr) == (0, "nothing\n")  # it is known, and nothing has happened


def test_entries_that_cannot_be_read_are_counted_and_left_out(
    redis_url: str, admin: redis.Redis, incident: tuple[int, int]
) -> None:
    admin.xadd(CHANGES, {"c": "no change"})
    done = run(redis_url, "history", "topic", "orders")
    assert "1 entries of the stream cannot be read" in done.stderr
    assert len(rows(done)) == 6


def test_a_change_names_the_user_of_the_store(redis_url: str, admin: redis.Redis, incident: object) -> None:
    rules = acl_rules("sharedroutes", Role.FRONT, user="olga", password=PASSWORD_RULE)
    admin.execute_command(*rules.split(" "))
    try:
        url = redis_url.replace("redis://", "redis://olga:secret@")
        assert run(url, "lift", "broker-b").exit_code == 0
        (row,) = [
            row
            for row in document(url, "history", "broker", "broker-b")
            if row["change"] == ChangeKind.LIFTED
        ]
        assert (row["by"], row["user"]) == (f"sharedroutes lift of {ME}", "olga")
    finally:
        admin.acl_deluser("olga")
