"""Finds the Java that Spark would start, and says what to install when there is none."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .errors import JavaMissing

__all__ = ["LEAST_VERSION", "check_java", "find_java", "version_of"]

LEAST_VERSION: Final = 17
"""Spark 4 runs on Java 17 and newer."""

_ADVICE: Final = (
    f"install Java {LEAST_VERSION} or newer (Debian: apt-get install default-jre-headless; "
    "macOS: brew install openjdk), or let JAVA_HOME name one"
)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_S: Final = 30


def check_java(environment: Mapping[str, str]) -> Path:
    """Return the Java program that Spark will start; raises JavaMissing for none, and for an old one."""
    java = find_java(environment)
    version = version_of(java)
    if version < LEAST_VERSION:
        raise JavaMissing(f"{java} is Java {version}: {_ADVICE}")
    return java


def find_java(environment: Mapping[str, str]) -> Path:
    """Return $JAVA_HOME/bin/java, or else the one on PATH, as Spark's launcher does; raises JavaMissing."""
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise JavaMissing(f"JAVA_HOME is {home}, where there is no bin/java: {_ADVICE}")
        return java
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise JavaMissing(f"the pipeline runs on Spark, which needs Java, and there is none: {_ADVICE}")
    return Path(found)


def version_of(java: Path) -> int:
    """Return the major version that a Java program tells; raises JavaMissing when it tells none."""
    try:
        answer = subprocess.run(  # noqa: S603 - the program that Spark would start
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{java} does not run ({error}): {_ADVICE}") from error
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        raise JavaMissing(f"{java} does not say its version: {_ADVICE}")
    return int(found[1])
