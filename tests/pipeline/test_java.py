"""Java is found as Spark's launcher finds it, and what is missing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharedroutes.pipeline.errors import JavaMissing
from sharedroutes.pipeline.session import check_java


def program(folder: Path, says: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    of_home = program(tmp_path / "home", "echo 'version \"17\"'")
    on_path = program(tmp_path / "other", "echo 'version \"21\"'")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert check_java(environment) == of_home
    assert check_java({"PATH": environment["PATH"]}) == on_path


def test_without_java_the_error_says_what_to_install() -> None:
    with pytest.raises(JavaMissing, match=r"there is none: install Java 17 .*default-jre-headless"):
        check_java({"PATH": "/nowhere"})


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=f"JAVA_HOME is {tmp_path}, where there is no bin/java"):
        check_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("version", "found"), [("11.0.2", "Java 11"), ("1.8.0_402", "Java 8"), ("16", "Java 16")]
)
def test_a_java_that_is_too_old_is_refused_with_its_version(tmp_path: Path, version: str, found: str) -> None:
    program(tmp_path, f"echo 'openjdk version \"{version}\" 2019-01-15' >&2")
    with pytest.raises(JavaMissing, match=f"is {found}: install Java 17"):
        check_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    java = program(tmp_path, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
    assert check_java({"JAVA_HOME": str(tmp_path)}) == java


def test_a_program_that_is_no_java_is_told(tmp_path: Path) -> None:
    program(tmp_path, "echo hello")
    with pytest.raises(JavaMissing, match="does not say its version"):
        check_java({"JAVA_HOME": str(tmp_path)})


def test_a_program_that_does_not_run_is_told(tmp_path: Path) -> None:
    program(tmp_path, "").write_bytes(b"\0")
    with pytest.raises(JavaMissing, match="does not run"):
        check_java({"JAVA_HOME": str(tmp_path)})
