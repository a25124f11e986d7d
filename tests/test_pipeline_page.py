"""docs/pipeline.md and docs/pipeline/ say what the pipeline has: schemas, answers, options and settings."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
import pytest

from sharedroutes.cli.pipeline.group import pipeline
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.pipeline import PipelineError, SessionConfig, answers, errors
from sharedroutes.pipeline.ingest import CompactConfig, IngestConfig
from sharedroutes.pipeline.load import Form
from sharedroutes.pipeline.sources import change_feed, samples
from sharedroutes.pipeline.sources.options import REGISTRY_OPTIONS
from sharedroutes.pipeline.sources.routes import READ_OPTIONS, WRITE_OPTIONS
from tests.markdown import names, page
from tools import pipeline_docs

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = {page.name: page.read_text(encoding="utf-8") for page in pipeline_docs.pages()}
PAGE: Final = "\n".join(PAGES.values())
RECORDER: Final = page("client/samples.md")
SPARK: Final = ("--conf", "--driver-memory", "--master", "--spark-log")
"""What a report tells of besides answers."""


def modules(of: Any) -> list[Any]:
    found = pkgutil.walk_packages(of.__path__, f"{of.__name__}.")
    return [import_module(module.name) for module in found]


FUNCTIONS: Final = {
    f"answers.{module.__name__.rpartition('.')[2]}.{name}": value
    for module in modules(answers)
    for name, value in vars(module).items()
    if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
}
INNER: Final = {"frames", "holdings", "past", "replay"}
"""Modules that the answers share, and that nobody else needs."""

OF_A_REPORT: Final = {
    f"answers.{name}"
    for name in (
        "availability.since",
        "availability.wiped",
        "detection.unwanted_ends",
        "uptime.failure",
        "uptime.observed",
    )
}
"""Parts of answers that a report puts together, so that it makes once what several have in common."""


def section(heading: str, page: str = PAGE) -> str:
    _, found, after = page.partition(f"# {heading}\n")
    assert found, f"there is no heading {heading!r}"
    return re.split(r"^#+ ", after, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str, head: str) -> list[list[str]]:
    """Return the cells of the only table with that head."""
    (table,) = re.findall(rf"^{re.escape(head)}\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()]


def options_in(heading: str, head: str = "| option | default | meaning |") -> dict[str, str]:
    """Return the options under a heading, with their defaults."""
    found = rows(section(heading), head)
    assert all(row[-1] for row in found)
    return {name: row[-2].strip("`") for row in found for name in names(row[0])}


def test_schemas_and_files_are_as_the_code_has_them() -> None:
    known = pipeline_docs.tables()
    for name, text in PAGES.items():
        assert pipeline_docs.written(text, known) == text, f"{name}: run `make generate`"
    for name in known.keys() - {"topic_history", "broker_history", "table_at", "difference", "before"}:
        assert len(re.findall(rf"^`{name}`(?: \([^)]*\))?: ", PAGE, re.MULTILINE)) == 1, name


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short_enough_to_be_read(name: str) -> None:
    assert len(PAGES[name].splitlines()) <= 300


def test_every_answer_is_in_the_page_with_its_arguments() -> None:
    written = {
        name: re.sub(r"=(?:\([^)]*\)|\w+\(\)|[\w.]+)", "", arguments)
        for name, arguments in re.findall(r"`(answers\.\w+\.\w+)\(((?:[^()`]|\([^()]*\))*)\)`", PAGE)
    }
    wanted = {name for name in FUNCTIONS if name.split(".")[1] not in INNER} - OF_A_REPORT
    assert set(written) >= wanted
    for name, arguments in written.items():
        parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
        first = next((one.name for one in parameters if one.kind is one.KEYWORD_ONLY), None)
        expected = [text for one in parameters for text in (*["*"] * (one.name == first), one.name)]
        assert arguments.split(", ") == expected, name


def leaves(command: click.Command) -> list[click.Command]:
    """Return a command that does something, or those of a group."""
    if not isinstance(command, click.Group):
        return [command]
    return [leaf for one in command.commands.values() for leaf in leaves(one)]


def test_every_command_has_the_options_of_spark() -> None:
    written = options_in("Where Spark runs")
    assert sorted(written) == [*SPARK]
    for name, command in [(name, leaf) for name, one in pipeline.commands.items() for leaf in leaves(one)]:
        of_spark = [one for one in command.params if one.opts[0] in SPARK]
        assert sorted(one.opts[0] for one in of_spark) == [*SPARK], name


@pytest.mark.parametrize(
    ("heading", "head", "expected"),
    [
        ("Which registries", "| option | default | meaning |", REGISTRY_OPTIONS),
        ("`route_changes`: the change stream", "| option | default | meaning |", change_feed.OPTIONS),
        ("`routes`: the table as it is now", "| option | default | meaning |", READ_OPTIONS),
        ("`routes` as a sink, and `load`", "| option | `Rules` | default | meaning |", WRITE_OPTIONS),
        ("`send_samples`: what clients recorded", "| option | default | meaning |", samples.OPTIONS),
    ],
)
def test_every_option_of_a_source_is_in_its_table(heading: str, head: str, expected: Any) -> None:
    common = () if heading == "Which registries" else REGISTRY_OPTIONS
    assert list(options_in(heading, head)) == [name for name in expected if name not in common]


def test_every_form_of_a_load_is_in_its_table() -> None:
    found = rows(section("Forms that `read_configs` reads"), "| form | by suffix | what it is |")
    assert [names(row[0])[0] for row in found] == [*Form]


def test_every_error_of_the_pipeline_is_named() -> None:
    told = section("Bad input and faults")
    known = {one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, PipelineError)}
    assert {kind.__name__ for kind in known} <= set(names(told))


@pytest.mark.parametrize(
    ("heading", "kind"),
    [("On a cluster", SessionConfig), ("Options of the ingest", IngestConfig), ("Compaction", CompactConfig)],
)
def test_every_setting_of_a_job_is_in_its_table(heading: str, kind: Any) -> None:
    found = rows(section(heading), f"| `{kind.__name__}` | default | meaning |")
    assert [name for row in found for name in names(row[0])] == [one.name for one in fields(kind)]
    assert all(row[2] for row in found)


def test_every_setting_of_the_recorder_is_in_the_page_of_the_client() -> None:
    found = rows(section("Samples of attempts", RECORDER), "| setting | default | meaning |")
    assert [names(row[0])[0] for row in found] == list(inspect.signature(SampleRecorder).parameters)


SNIPPETS: Final = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_what_a_snippet_imports_is_there(snippet: str) -> None:
    for node in ast.walk(ast.parse(snippet)):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            module = import_module(node.module)
            assert [one.name for one in node.names if not hasattr(module, one.name)] == []
