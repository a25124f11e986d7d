"""Alerts and the dashboard: promtool finds nothing wrong, and all they name is told by real processes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sharedroutes.client import AttemptsFailed, ClientConfig, RouteClient
from sharedroutes.client.observers.prometheus import PrometheusObserver
from tests.deploy.files import ROOT, run
from tests.nameserver.running import FrontRun
from tests.status_page.stage import staged
from tests.support import wait_until
from tools.metrics_docs import PAGE, labels_of, name_of, of_agent, of_client, of_front, written

RULES: Final = ROOT / "deploy" / "prometheus" / "sharedroutes.rules.yaml"
TESTS: Final = RULES.with_name("sharedroutes.test.yaml")
DASHBOARD: Final = json.loads((ROOT / "deploy" / "grafana" / "sharedroutes.json").read_text(encoding="utf-8"))
ALERTS: Final = [
    rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
PANELS: Final[list[dict[str, Any]]] = DASHBOARD["panels"]
EXPRESSIONS: Final = {
    **{rule["alert"]: rule["expr"] for rule in ALERTS},
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in PANELS
        for target in panel.get("targets", ())
    },
}
OF_PROMETHEUS: Final = {"instance", "job"}
NAME: Final = re.compile(r"\b(?:sharedroutes|process)_[a-z_]+\b")
LABELS: Final = re.compile(r"\b(?:by|on) \(([^)]*)\)|\b([a-z_]+)(?:=~|!~|!=|=)\"")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool of Debian's prometheus"
)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """Return the labels of every metric that a real agent, two fronts and a client tell; one has workers."""
    folder = tmp_path_factory.mktemp("with-workers")
    with ExitStack() as stack:
        stage = stack.enter_context(staged(tmp_path_factory.mktemp("stage")))
        several = stack.enter_context(FrontRun(folder, "--redis", stage.server.url, "--workers", "2"))
        several.until_ready()
        peer = stack.enter_context(stage.front.peer())
        peer.cluster()
        wait_until(lambda: _answered(stage.pages["front"]), timeout_s=30.0, description="a request is told")
        with_workers = several.found(r"HTTP at (\S+)")[1]
        found: dict[str, set[str]] = {}
        for place in (*stage.pages.values(), f"http://{with_workers}/"):
            for name, labels in _scrape(place):
                found.setdefault(name, set()).update(labels)
        for name, labels in _parsed(_of_a_client(stage.server.url)):
            found.setdefault(name, set()).update(labels)
        yield found


def _of_a_client(url: str) -> str:
    """Return the metrics of a client to which brokers have failed."""
    families = CollectorRegistry()
    metrics = PrometheusObserver(families, "checkout")
    with RouteClient.from_url(url, ClientConfig(observers=(metrics,))) as routes:
        metrics.watch(routes)
        with suppress(AttemptsFailed):
            for attempt in routes.attempts("orders", retries=0):
                with attempt:
                    raise ConnectionError
        return generate_latest(families).decode()


def _scrape(place: str) -> Iterator[tuple[str, set[str]]]:
    with urlopen(f"{place}metrics", timeout=30) as answer:  # noqa: S310 - a server of this test
        yield from _parsed(answer.read().decode())


def _parsed(text: str) -> Iterator[tuple[str, set[str]]]:
    for family in text_string_to_metric_families(text):
        yield (f"{family.name}_total" if family.type == "counter" else family.name), set()
        for sample in family.samples:
            yield sample.name, {*sample.labels}


def _answered(place: str) -> bool:
    return any(name == "sharedroutes_nameserver_requests_total" and labels for name, labels in _scrape(place))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_names_only_what_real_processes_tell(name: str, scraped: dict[str, set[str]]) -> None:
    used = set(NAME.findall(EXPRESSIONS[name]))
    assert used
    assert used <= scraped.keys()
    labels = {
        label.strip()
        for several, one in LABELS.findall(EXPRESSIONS[name])
        for label in (several or one).split(",")
    }
    declared = {
        label for one in (*of_agent(), *of_front()) if name_of(one) in used for label in labels_of(one)
    }
    declared |= {label for name, _, one in of_client() if name in used for label in ("client", *one.labels)}
    assert labels <= declared | OF_PROMETHEUS


def test_what_the_page_of_metrics_says_is_what_real_processes_tell(scraped: dict[str, set[str]]) -> None:
    of_processes = ("sharedroutes_agent_", "sharedroutes_nameserver_")
    told = {name: labels for name, labels in scraped.items() if name.startswith(of_processes)}
    declared = {name_of(one): {*labels_of(one)} for one in (*of_agent(), *of_front())}
    assert told.keys() == declared.keys()
    assert all(told[name] in (set(), declared[name]) for name in told)


def test_the_page_of_metrics_has_what_a_client_tells() -> None:
    families = CollectorRegistry()
    PrometheusObserver(families)
    told = {(family.name, family.type) for family in families.collect()}
    assert {(name.removesuffix("_total"), kind) for name, kind, _ in of_client()} == told


def test_the_page_of_metrics_is_as_the_code_has_it() -> None:
    assert PAGE.read_text(encoding="utf-8") == written(), "run `make generate`"


@needs_promtool
def test_promtool_finds_nothing_wrong_in_the_rules() -> None:
    done = run("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@needs_promtool
def test_each_alert_fires_when_it_should_and_only_then() -> None:
    done = run("promtool", "test", "rules", str(TESTS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    known = yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
    fires = {one["alertname"] for test in known for one in test["alert_rule_test"] if one["exp_alerts"]}
    silent = {
        test["alert_rule_test"][0]["alertname"]
        for test in known
        if not any(one["exp_alerts"] for one in test["alert_rule_test"])
    }
    assert fires == silent == {rule["alert"] for rule in ALERTS}


def test_each_alert_says_how_bad_it_is_and_what_it_means() -> None:
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]


def test_the_pages_tell_of_all_alerts() -> None:
    docs = ROOT / "docs"
    assert f"has {len(ALERTS)} alerts" in (docs / "operating.md").read_text(encoding="utf-8")
    of_clients = {rule["alert"] for rule in ALERTS if "sharedroutes_client_" in rule["expr"]}
    page = (docs / "client" / "reports.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(Sharedroutes\w+)` ", page, re.MULTILINE)) == of_clients


@needs_promtool
def test_prometheus_can_read_each_expression_of_the_dashboard(tmp_path: Path) -> None:
    values = {"$__rate_interval": "5m", "$instance": ".*", "$broker": ".*"}
    rules = []
    for number, expression in enumerate(EXPRESSIONS.values()):
        for variable, value in values.items():
            expression = expression.replace(variable, value)  # noqa: PLW2901 - one variable after the other
        rules.append({"record": f"r{number}", "expr": expression})
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = run("promtool", "check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_variables_of_the_dashboard_are_those_that_it_uses() -> None:
    declared = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(PANELS)))
    assert used == declared


def test_no_panel_of_the_dashboard_covers_another_or_has_its_number() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    places = [panel["gridPos"] for panel in PANELS]
    assert all(0 <= place["x"] <= 24 - place["w"] for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above


def test_each_panel_says_what_it_shows() -> None:
    for panel in PANELS:
        assert panel["title"]
        assert panel["type"] == "row" or panel["description"], panel["title"]
