"""Every Python snippet of the pages for users runs as it stands: only the address of the store is put in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import Broker, RouteStore, TopicConfig
from sharedroutes.registry.embedded import find_server
from tests.client.test_examples import GOOD, LineBroker, running

ROOT: Final = Path(__file__).resolve().parents[1]
CLIENT: Final = (
    "attempts",
    "choosing",
    "faults",
    "freshness",
    "presets",
    "processes",
    "receiving",
    "reports",
    "samples",
    "sending",
    "testing",
)
PAGES: Final = (
    "README.md",
    "docs/client.md",
    *(f"docs/client/{name}.md" for name in CLIENT),
    "docs/operating.md",
    "docs/howto/own-strategy.md",
    "docs/howto/zones.md",
)
URL: Final = "redis://127.0.0.1:6379/0"
"""What stands in the pages for the address of a store that runs."""

BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FORKS: Final = "ignore:This process:DeprecationWarning"
"""Python warns of forks from 3.12 on; the pages say what a fork means."""


def snippets(page: str) -> dict[str, str]:
    """Return the snippets of a page by where they begin, as `page:line`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = {}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        found[f"{page}:{line}"] = block[1]
    return found


SNIPPETS: Final = {place: code for page in PAGES for place, code in snippets(page).items()}


@pytest.fixture
def url(redis_url: str) -> Iterator[str]:
    """Return the address of a store with the topic `orders`, on two brokers that take a line of text."""
    with ExitStack() as stack:
        store = stack.enter_context(RouteStore.from_url(redis_url))
        for name in ("broker-a", "broker-b"):
            broker = stack.enter_context(LineBroker(GOOD))
            stack.enter_context(running(broker))
            store.register(Broker(name, broker.address), [TopicConfig("orders", 2, 2)])
        yield redis_url


@pytest.mark.parametrize("code", SNIPPETS.values(), ids=SNIPPETS)
def test_a_snippet_runs_as_it_stands(code: str, url: str, tmp_path: Path) -> None:
    program = tmp_path / "pasted.py"
    program.write_text(code.replace(URL, url), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", FORKS, str(program)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "SHAREDROUTES_REDIS_SERVER": find_server(),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout, "it shows nothing, so nobody can see that it works"


@pytest.mark.parametrize("page", PAGES)
def test_every_snippet_of_a_page_is_found(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(snippets(page)) == len(re.findall(r"^\s*(?:```|~~~)\s*(?:python|py)", text, re.MULTILINE)) > 0
