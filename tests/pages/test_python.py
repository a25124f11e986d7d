"""Every Python snippet of the pages for users runs as it stands: only the address of the store is put in."""

from __future__ import annotations

import os
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
from tests.pages.blocks import ROOT, blocks_of

pytestmark = pytest.mark.long

BLOCKS: Final = {block.place: block.text for page in blocks_of(__file__).values() for block in page}
URL: Final = "redis://127.0.0.1:6379/0"
"""What stands in the pages for the address of a store that runs."""

FORKS: Final = "ignore:This process:DeprecationWarning"
"""Python warns of forks from 3.12 on; the pages say what a fork means."""


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


@pytest.mark.parametrize("code", BLOCKS.values(), ids=BLOCKS)
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
