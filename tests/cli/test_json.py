"""What commands print for programs is what their schema says, as one document and as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from sharedroutes.cli.json_schema import PRINTED, schema
from sharedroutes.cli.pipeline.ingest import show_compaction
from sharedroutes.cli.pipeline.load import show as show_load
from sharedroutes.cli.root import sharedroutes
from sharedroutes.pipeline.ingest import CompactSummary, DayCompacted
from sharedroutes.pipeline.load import BrokerLoad, LoadSummary
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from tests.broker_agent.agent_site import Site
from tests.cli.agents import MASTER, SLAVE, an_agent
from tests.cli.terminal import run
from tests.support import run_python
from tools.cli_docs import commands

A: Final = Broker("broker-a", "10.0.0.1:10911", zone_name="z1", enable_acting_master=True)
ASKED: Final = {
    "acl": ("reader",),
    "before": ("now",),
    "brokers": (),
    "changes": (),
    "clusters": (),
    "delete-topic": ("audit",),
    "diff": ("--from", "1h"),
    "doctor": (),
    "forget": ("broker-b",),
    "health": (),
    "history broker": ("broker-a",),
    "history topic": ("orders",),
    "kv delete": ("ns", "k"),
    "kv get": ("ns", "k"),
    "kv list": (),
    "kv put": ("ns", "new", "v"),
    "leases": (),
    "lift": ("broker-a",),
    "rebuild": (),
    "routes": ("orders",),
    "table": ("--at", "now"),
    "topics": (),
    "verify": (),
    "wipe": ("broker-a",),
}
"""Commands of a store, with arguments for which there is something to print."""

WITHOUT_RECORDS: Final = {
    *("agent-ctl", "agent-ctl health", "agent-ctl ready"),
    *("completion", "export", "json-schema", "nameserver", "watch"),
}
"""docs/design/cli.md says why."""

MORE: Final = (("brokers", ("--all",)), ("kv list", ("ns",)))
FINE: Final = {"rebuild": 0, "verify": 1, "doctor": 1, "health": 3}
"""Exit status where it is not 0: there is a difference, which rebuild mends; nobody sweeps."""


@pytest.fixture
def url(redis_url: str, admin: redis.Redis) -> Iterator[str]:
    """Return a registry with a live broker, a dead one, a value, and a topic that is not listed."""
    with RouteStore.from_url(redis_url) as store:
        store.register(A, [TopicConfig("orders"), TopicConfig("audit"), TopicConfig("unlisted")])
        store.unregister(store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders")]))
        store.kv.put("ns", "k", "v")
        admin.srem(store.keys.topics, "unlisted")
        yield redis_url


@pytest.fixture(params=["json", "ndjson"])
def output(request: pytest.FixtureRequest) -> str:
    """Return each of the forms for programs."""
    return str(request.param)


def check(name: str, output: str, text: str) -> list[Any]:
    """Check what a command printed against its closed schema; return the records."""
    printed = PRINTED[name]
    if output == "ndjson":
        found = [json.loads(line) for line in text.splitlines()]
        validator = Draft202012Validator(schema(printed, line=True, closed=True))
        for record in found:
            validator.validate(record)
        return found
    document = json.loads(text)
    Draft202012Validator(schema(printed, closed=True)).validate(document)
    return document if printed.is_list else [document]


@pytest.mark.parametrize(("name", "arguments"), [*ASKED.items(), *MORE])
def test_what_a_command_prints_is_what_its_schema_says(
    url: str, name: str, arguments: tuple[str, ...], output: str
) -> None:
    words = [*name.split(), *arguments, "--output", output]
    done = CliRunner().invoke(sharedroutes, words) if name == "acl" else run(url, *words)
    assert done.exit_code == FINE.get(name, 0), done.output
    assert check(name, output, done.stdout)


def test_the_result_of_an_import_is_what_its_schema_says(url: str, output: str, tmp_path: Path) -> None:
    file = str(tmp_path / "registry")
    assert run(url, "export", file).exit_code == 0
    with RouteStore.from_url(url) as store:
        store.register(A, [TopicConfig("orders")])
    done = run(url, "import", file, "--output", output)
    assert done.exit_code == 1, done.output  # the live broker is refused
    (summary,) = check("import", output, done.stdout)
    assert summary["brokers"]["refused"] == len(summary["notImported"]) == 1


def test_what_an_agent_was_told_is_what_its_schema_says(site: Site, output: str) -> None:
    with site.agent() as agent:
        site.until_served()
        for action, more in (("pause", ["--wait", "30"]), ("resume", []), ("drain", ["--after", "0"])):
            words = ["agent-ctl", "--http", agent.http(), action, *more, "--output", output]
            done = CliRunner().invoke(sharedroutes, words)
            assert done.exit_code == 0, done.output
            told = [{"action": action, "name": "broker-a:0"}]
            assert check(f"agent-ctl {action}", output, done.stdout) == told
        words = ["agent-ctl", "--http", agent.http(), "reload", "--output", output]
        assert check("agent-ctl reload", output, CliRunner().invoke(sharedroutes, words).stdout) == []
        site.conf.write_text("brokerName=broker-a\nlistenPort=none\n")
        done = CliRunner().invoke(sharedroutes, words)
        assert done.exit_code == 1
        assert "listenPort" in check("agent-ctl reload", output, done.stdout)[0]["problem"]


def test_what_a_check_of_an_agent_found_is_what_its_schema_says(site: Site, output: str) -> None:
    words = ["agent", "--check=files,store", "--broker-conf", str(site.conf), "--redis", site.url]
    done = CliRunner().invoke(sharedroutes, [*words, "--output", output])
    assert done.exit_code == 0, done.output
    found = check("agent", output, done.stdout)
    assert [(one["check"], one["outcome"]) for one in found] == [
        ("files", "ok"),
        ("store", "ok"),
        ("broker", "left out"),
    ]


def test_what_the_pipeline_has_done_is_what_its_schema_says(
    output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = LoadSummary(dry_run=True, brokers=(BrokerLoad("broker-a", 1, 2, 3, 4), BrokerLoad("broker-b")))
    show_load(loaded, output)
    first, second = check("pipeline load", output, capsys.readouterr().out)
    assert (first["brokerName"], first["unchanged"], second["dryRun"]) == ("broker-a", 4, True)
    figures = {"rows": 9, "duplicates": 0, "folders": 3, "bytes_before": 900, "bytes_after": 300}
    compacted = [DayCompacted(table="changes", day="2026-11-21", **figures)]
    show_compaction(CompactSummary(compacted, ["changes/2026-11-20"]), output)
    days = check("pipeline compact", output, capsys.readouterr().out)
    assert {one["day"]: one["done"] for one in days} == {
        "2026-11-21": "compacted",
        "2026-11-20": "dropped",
    }


def test_what_an_agent_shows_is_what_its_schema_says(site: Site, output: str) -> None:
    with site.agent() as agent:
        site.until_served()
        for name in ("status", "master"):
            done = CliRunner().invoke(
                sharedroutes, ["agent-ctl", "--http", agent.http(), name, "--output", output]
            )
            assert done.exit_code == 0, done.output
            (record,) = check(f"agent-ctl {name}", output, done.stdout)
            (broker,) = record["brokers"] if name == "status" else [record]
            assert (broker["name"], broker["role"]) == ("broker-a:0", "master")


def test_what_is_told_of_masters_is_what_its_schema_says(output: str) -> None:
    with an_agent([SLAVE, MASTER]) as address:
        done = CliRunner().invoke(
            sharedroutes, ["agent-ctl", "--http", address, "master", "--output", output]
        )
        assert done.exit_code == 0, done.output
        assert len(check("agent-ctl master", output, done.stdout)) == 2


@pytest.mark.parametrize("name", PRINTED)
def test_no_schema_lets_anything_pass(name: str) -> None:
    assert {} not in [*_parts(schema(PRINTED[name]))]


def _parts(found: Any) -> Iterator[Any]:
    yield found
    for part in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from _parts(part)


@pytest.mark.parametrize("words", [("agent",), ("agent-ctl", "status"), ("topics",)])
def test_no_schema_needs_the_extra_of_an_agent(words: tuple[str, ...]) -> None:
    without = "import sys; sys.modules |= dict.fromkeys(('h11', 'jinja2', 'watchdog')); "
    done = run_python(without + "from sharedroutes.cli.main import main; main()", "json-schema", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_that_prints_records_has_all_forms_and_a_schema() -> None:
    forms = {
        name.removeprefix("pipeline ask "): option.type.choices
        for name, command, _ in commands()
        for option in command.params
        if option.name == "output" and hasattr(option.type, "choices")
    }
    assert {*forms} == {*PRINTED}
    every = {name.removeprefix("pipeline ask ") for name, _, _ in commands()}
    assert every - {*forms} == WITHOUT_RECORDS
    assert {tuple(choices) for choices in forms.values()} == {("table", "json", "ndjson")}
    others = {name for name in PRINTED if name.startswith(("agent-ctl ", "pipeline "))}
    assert {*PRINTED} - {*ASKED} == {*others, "agent", "import", "profiles"}


@pytest.mark.parametrize("name", PRINTED)
def test_the_schema_that_is_printed_is_one(name: str) -> None:
    for more in ([], ["--line"]):
        done = CliRunner().invoke(sharedroutes, ["json-schema", *name.split(), *more])
        assert done.exit_code == 0, done.output
        Draft202012Validator.check_schema(json.loads(done.stdout))


def test_the_schema_lets_later_releases_add_fields_and_this_one_none() -> None:
    record = {"topic": "orders", "more": 1}
    assert Draft202012Validator(schema(PRINTED["topics"])).is_valid([record])
    assert not Draft202012Validator(schema(PRINTED["topics"], closed=True)).is_valid([record])
    assert not Draft202012Validator(schema(PRINTED["topics"])).is_valid([{}])


def test_who_asks_for_the_schema_of_a_command_without_records_is_told_which_have_one() -> None:
    done = CliRunner().invoke(sharedroutes, ["json-schema", "export"])
    assert done.exit_code == 2
    assert "'export' prints no JSON; these do: acl, " in done.stderr


def test_no_records_are_an_empty_list_and_no_line(redis_url: str, output: str) -> None:
    done = run(redis_url, "topics", "--output", output)
    assert (done.exit_code, done.stdout) == (0, "[]\n" if output == "json" else "")


def test_a_value_with_odd_line_ends_is_printed_as_it_is(redis_url: str) -> None:
    value = "a\u2028b\x85c\nd"
    with RouteStore.from_url(redis_url) as store:
        store.kv.put("ns", "k", value)
    document = json.loads(run(redis_url, "kv", "list", "ns", "-o", "json").stdout)
    line = json.loads(run(redis_url, "kv", "list", "ns", "-o", "ndjson").stdout)
    assert document == [line] == [{"key": "k", "value": value}]


def test_following_has_no_end_and_so_no_document(url: str) -> None:
    done = run(url, "changes", "--follow", "--output", "json")
    assert done.exit_code == 2
    assert "use --output ndjson" in done.stderr
