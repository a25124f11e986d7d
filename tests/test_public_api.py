"""What users may call is listed, and changes only when the list does."""

from __future__ import annotations

import importlib

import pytest

from tools import public_api

LISTED = public_api.LIST.read_text(encoding="utf-8")
PACKAGES = [line for line in LISTED.splitlines() if line.startswith("sharedroutes")]


def test_the_list_of_public_names_is_current() -> None:
    assert public_api.public_api() == LISTED, "run `make generate`, and tell users in CHANGELOG.md"


@pytest.mark.parametrize("name", PACKAGES)
def test_each_name_that_a_package_exports_is_listed(name: str) -> None:
    block = LISTED.partition(f"\n{name}\n")[2].partition("\n\n")[0]
    listed = {line for line in block.splitlines() if not line.startswith("    ")}
    for exported in importlib.import_module(name).__all__:
        assert any(exported in line.replace("(", " ").replace(":", " ").split() for line in listed), exported


@pytest.mark.parametrize(
    "line",
    [
        "    async until(*phases: Phase) -> AgentStatus",
        "    BROKER_GONE = 'broker-gone'",
        "    epoch: int | None = None",
        "    redis_url: str = ...",
    ],
)
def test_signatures_members_and_fields_are_listed(line: str) -> None:
    assert f"\n{line}\n" in LISTED
