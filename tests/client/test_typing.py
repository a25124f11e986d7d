"""What a second type checker says of the public names and the examples; mypy checks these in `make lint`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
BIN: Final = Path(sys.executable).parent


def basedpyright(*arguments: str) -> dict[str, Any]:
    """Run it in this environment, with the package where it is found when installed; return its report."""
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])  # where it looks for our requirements
    done = subprocess.run(
        (sys.executable, "-m", "basedpyright", "--outputjson", *arguments),
        cwd=ROOT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: it found something
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_uses_of_the_public_names_and_the_examples_have_the_types_that_they_say() -> None:
    report = basedpyright("--pythonpath", sys.executable)
    assert report["summary"]["filesAnalyzed"] == 1 + len([*(ROOT / "examples").glob("*.py")])
    found = [
        f"line {one['range']['start']['line'] + 1}: {one['message']}" for one in report["generalDiagnostics"]
    ]
    assert found == []


def test_no_type_that_the_package_exports_is_unknown() -> None:
    report = basedpyright("--ignoreexternal", "--verifytypes", "sharedroutes.client")["typeCompleteness"]
    names = {symbol["name"] for symbol in report["symbols"] if symbol["isExported"]}
    assert "sharedroutes.client.route_client.RouteClient.select_queue" in names
    unknown = [
        f"{symbol['name']}: {one['message']}"
        for symbol in report["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]
        for one in symbol["diagnostics"]
    ]
    assert unknown == []
    assert report["exportedSymbolCounts"]["withUnknownType"] == 0
