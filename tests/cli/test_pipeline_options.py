"""The options of the pipeline's commands are understood, and refused, before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from sharedroutes.cli.pipeline.group import pipeline
from sharedroutes.pipeline.load import Form


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(pipeline, words)
    return result.exit_code, result.output


def commands_of(group: click.Group) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that does something."""
    for name, command in group.commands.items():
        for words in commands_of(command) if isinstance(command, click.Group) else [()]:
            yield (name, *words)


@pytest.mark.parametrize("words", [*commands_of(pipeline)], ids=" ".join)
def test_every_command_has_a_help_with_what_it_shares_with_the_others(words: tuple[str, ...]) -> None:
    code, text = run(*words, "--help")
    assert code == 0
    assert all(option in text for option in ("--master", "--driver-memory", "--conf", "--spark-log"))


def test_the_forms_of_a_load_are_called_as_they_are_documented() -> None:
    _, text = run("load", "--help")
    assert all(form.value in text.replace("\n", "") for form in Form)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("ingest",), "Missing option '--out'"),
        (("ingest", "--out", "x", "--on-loss", "ignore"), "'ignore' is not one of"),
        (("ingest", "--out", "x", "--conf", "novalue"), "'novalue' is not KEY=VALUE"),
        (("report", "--out", "x"), "Missing option '--changes'"),
        (("load", "x", "--form", "xml"), "'xml' is not one of"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(words: tuple[str, ...], problem: str) -> None:
    code, text = run(*words)
    assert code == 2
    assert problem in text
