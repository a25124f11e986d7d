"""Tables cut nothing: neither at a narrow terminal nor in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from sharedroutes.cli.tables import print_table
from sharedroutes.daemon.printing import shown
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from tests.cli.terminal import at_terminal, each_at_terminal, run

BROKER: Final = "broker-a-with-a-quite-long-name-in-the-data-center-frankfurt-2"
CLUSTER: Final = "ProductionClusterOfTheDataCenterFrankfurt"
TOPIC: Final = "payments-with-a-name-that-does-not-fit-in-eighty-columns-of-a-terminal-at-all-" + "x" * 40
ADDRESS: Final = "[2001:db8:85a3:1111:2222:8a2e:370:7334]:10911"
NARROW: Final = (80, 60)

WHOLE: Final = {
    ("brokers",): {BROKER, CLUSTER, ADDRESS},
    ("brokers", "--all"): {BROKER, f"{BROKER}-dead", CLUSTER, ADDRESS, ADDRESS[:-1]},
    ("clusters",): {CLUSTER},
    ("leases",): {BROKER, CLUSTER, ADDRESS},
    ("topics",): {TOPIC, "orders"},
    ("routes", TOPIC): {TOPIC, BROKER, ADDRESS},
    ("changes",): {f"{BROKER}:0", ADDRESS, TOPIC, "orders", f"{TOPIC}-namespace/{TOPIC}-key"},
    ("kv", "list"): {f"{TOPIC}-namespace"},
    ("kv", "list", f"{TOPIC}-namespace"): {f"{TOPIC}-key", TOPIC * 2},
    ("wipe", BROKER): {BROKER},
    ("delete-topic", TOPIC): {BROKER},
    ("forget", f"{BROKER}-dead"): {f"{BROKER}-dead"},
    ("health",): {"sharedroutes,"},
}
"""Commands, and the words that stand whole in what they print."""


@pytest.fixture
def url(redis_url: str) -> Iterator[str]:
    with RouteStore.from_url(redis_url) as store:
        store.register(Broker(BROKER, ADDRESS, cluster=CLUSTER), [TopicConfig(TOPIC), TopicConfig("orders")])
        store.unregister(store.register(Broker(f"{BROKER}-dead", ADDRESS[:-1], cluster=CLUSTER), []))
        store.kv.put(f"{TOPIC}-namespace", f"{TOPIC}-key", TOPIC * 2)
        yield redis_url


@pytest.mark.parametrize("columns", NARROW)
def test_a_narrow_terminal_shows_every_name_and_address_whole(url: str, columns: int) -> None:
    printed = each_at_terminal(columns, [[*command, "--redis", url] for command in WHOLE])
    for (command, whole), text in zip(WHOLE.items(), printed, strict=True):
        assert whole <= set(text.split()), (command, text)
        assert "…" not in text, command


def test_what_fits_stays_a_table(redis_url: str) -> None:
    with RouteStore.from_url(redis_url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
    done = at_terminal(80, "brokers", "--redis", redis_url)
    assert [line.split() for line in done.lines] == [
        ["cluster", "broker", "id", "address", "write", "permission"],
        ["DefaultCluster", "broker-a", "0", "10.0.0.1:10911", "yes"],
    ]


@pytest.mark.parametrize("command", ["health", "doctor"])
def test_no_line_of_a_report_is_broken_within_a_word(redis_url: str, command: str) -> None:
    wide = at_terminal(1_000, command, "--redis", redis_url)
    narrow = at_terminal(60, command, "--redis", redis_url)
    assert wide.exit_code == narrow.exit_code
    words = {word for word in wide.text.split() if word.isalpha()}  # figures change meanwhile
    assert words <= set(narrow.text.split())


def test_a_pipe_gets_a_line_a_row_however_long(url: str) -> None:
    done = run(url, "kv", "list", f"{TOPIC}-namespace")
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [[f"{TOPIC}-key", TOPIC * 2]]
    long = run(url, "kv", "put", "ns", "k", "v" * 5_000)
    assert long.exit_code == 0
    done = run(url, "kv", "list", "ns")
    assert done.stdout.splitlines()[1].split() == ["k", "v" * 5_000]


def test_a_name_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("a\nb\x1b[31mc") == r"a\nb\x1b[31mc"
    print_table(("topic",), [("a\nb\x1b[31mc",)])
    assert capsys.readouterr().out.splitlines()[1:] == [r"a\nb\x1b[31mc"]


def test_no_blanks_follow_the_last_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("long value", ""), ("", "c")])
    assert capsys.readouterr().out.splitlines()[1:] == ["long value", "            c"]
