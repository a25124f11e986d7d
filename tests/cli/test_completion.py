"""What a shell completes: commands, and names of profiles, topics, brokers, clusters and schemas."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from socket import create_server

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from sharedroutes.cli import known_names
from sharedroutes.cli.root import sharedroutes
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from tests.cli.agents import MASTER, SLAVE, an_agent
from tests.ports import free_port

RUN = (sys.executable, "-c", "from sharedroutes.cli.main import main; main()")


def completed(*words: str) -> list[str]:
    """Return how the last word may go on."""
    *before, last = words
    found = ShellComplete(sharedroutes, {}, "sharedroutes", "").get_completions(before, last)
    return [one.value for one in found]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_names, "LONGEST_S", 60.0)  # this machine may be busy


@pytest.fixture
def url(store: RouteStore, redis_url: str) -> str:
    store.register(
        Broker("broker-a", "10.0.0.1:1", cluster="shop"), [TopicConfig("orders"), TopicConfig("audit")]
    )
    store.unregister(store.register(Broker("broker-b", "10.0.0.2:1", cluster="post"), []))
    return redis_url


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_the_words_of_commands(shell: str) -> None:
    script = CliRunner().invoke(sharedroutes, ["completion", shell])
    assert script.exit_code == 0, script.output
    assert "_SHAREDROUTES_COMPLETE=" in script.stdout
    place = "le" if shell == "fish" else "1"  # fish says the word, and the others its number
    variables = {"COMP_WORDS": "sharedroutes le", "COMP_CWORD": place}
    done = subprocess.run(
        RUN,
        env={**os.environ, **variables, "_SHAREDROUTES_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "leases" in done.stdout
    assert "brokers" not in done.stdout


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("routes", "o"), ["orders"]),
        (("routes", "orders", ""), ["audit", "orders"]),
        (("history", "topic", ""), ["audit", "orders"]),
        (("table", "--topic", "a"), ["audit"]),
        (("delete-topic", "x"), []),
        (("wipe", "broker"), ["broker-a", "broker-b"]),
        (("history", "broker", "broker-b"), ["broker-b"]),
        (("leases", "--cluster", ""), ["post", "shop"]),
    ],
)
def test_names_of_the_registry_are_completed(url: str, words: tuple[str, ...], names: list[str]) -> None:
    option = next((place for place, word in enumerate(words) if word.startswith("--")), len(words) - 1)
    assert completed(*words[:option], "--redis", url, *words[option:]) == names


def test_the_registry_of_a_variable_is_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAREDROUTES_REDIS_URL", url)
    assert completed("routes", "o") == ["orders"]
    monkeypatch.setenv("SHAREDROUTES_NAMESPACE", "other")
    assert completed("routes", "o") == []


def test_a_store_that_does_not_answer_completes_nothing_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(create_server(("127.0.0.1", 0))) as silent:  # takes connections, and never answers
        port = silent.getsockname()[1]
        for url in (f"redis://127.0.0.1:{free_port()}/0", f"redis://127.0.0.1:{port}/0", "no-url"):
            assert completed("routes", "--redis", url, "o") == []
        monkeypatch.setattr(known_names, "LONGEST_S", 0.05)
        assert completed("routes", "--redis", f"redis://127.0.0.1:{port}/0", "o") == []
    assert capfd.readouterr() == ("", "")


def test_profiles_are_completed_and_the_one_that_stands_there_is_asked(profiles: Path, url: str) -> None:
    assert completed("topics", "--profile", "") == []
    profiles.write_text(f"[profiles.dev]\nredis = '{url}'\n[profiles.prod]\n", encoding="utf-8")
    assert completed("topics", "--profile", "") == ["dev", "prod"]
    assert completed("routes", "--profile", "dev", "o") == ["orders"]
    profiles.write_text("[profiles", encoding="utf-8")
    assert completed("topics", "--profile", "") == []


def test_commands_that_have_a_schema_are_completed_word_by_word() -> None:
    assert completed("json-schema", "h") == ["health", "history"]
    assert completed("json-schema", "history", "") == ["broker", "topic"]
    assert completed("json-schema", "kv", "g") == ["get"]
    assert completed("json-schema", "topics", "") == []


def test_brokers_of_an_agent_are_completed() -> None:
    with an_agent([SLAVE, MASTER]) as address:
        assert completed("agent-ctl", "--http", address, "drain", "--broker", "broker-b") == ["broker-b:0"]
    nobody = f"127.0.0.1:{free_port()}"
    assert completed("agent-ctl", "--http", nobody, "drain", "--broker", "") == []
