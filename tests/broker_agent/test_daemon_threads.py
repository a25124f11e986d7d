"""Work that may hang for ever, and a process that can end all the same."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.daemon.threads import in_thread, nothing_collected
from tests.support import run_python

_FOLLOWS: Final = """
import asyncio, logging, sys
from pathlib import Path
from sharedroutes.broker_agent import file_watch
from sharedroutes.broker_agent.topic_sources.files import FileTopics

file_watch.STUCK_S = 0.1
hangs = asyncio.Event()

class Told(logging.Handler):
    def emit(self, record):
        if "reading it hangs" in record.getMessage():
            hangs.set()

async def follow():
    async for _ in FileTopics(Path(sys.argv[1])).found():
        pass

async def main():
    following = asyncio.create_task(follow())
    await hangs.wait()
    following.cancel()
    await asyncio.wait([following])

logging.getLogger("sharedroutes.broker_agent").addHandler(Told())
asyncio.run(main())
print("ended")
"""


def work(what: str, *, loud: bool) -> tuple[str, bool]:
    if not what:
        raise LookupError(what)
    assert threading.current_thread().daemon
    return what.upper() if loud else what, threading.current_thread() is threading.main_thread()


async def test_the_work_is_done_in_another_thread() -> None:
    assert await in_thread(work, "a", loud=True) == ("A", False)


async def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(LookupError):
        await in_thread(work, "", loud=False)


def test_a_process_ends_while_a_read_hangs(tmp_path: Path) -> None:
    """A FIFO to which nobody writes is like a file of a network disk that is gone."""
    path = tmp_path / "topics.json"
    os.mkfifo(path)
    assert run_python(_FOLLOWS, str(path)).stdout == "ended\n"


def test_nothing_is_collected_meanwhile_and_all_is_as_before_after_it() -> None:
    with nothing_collected():
        with nothing_collected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
