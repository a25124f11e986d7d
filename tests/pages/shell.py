"""A reader's terminals: one for what ends, and one more for each command that stays."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Self

from tests.markdown import lacks
from tests.pages.blocks import Block
from tests.support import wait_until

STAY: Final = re.compile(
    r"^(?:\S*/)?(?:redis-server |mqbroker |spark-submit [\s\S]*?\bingest |sharedroutes "
    r"(?:agent --config \S+$|changes --follow|nameserver |pipeline ingest ))",
    re.MULTILINE,
)
"""How a command begins that runs until somebody ends it."""

_FINDING: Final = re.compile(r"^((?:\S*/)?sharedroutes doctor\b[^#\n]*)", re.MULTILINE)
_KEPT: Final = re.compile(r"^(?:export |PATH=|\. )")
_ENDS_WITHIN_S: Final = 600.0
_SPEAKS_WITHIN_S: Final = 90.0
_PATIENCE_S: Final = 90.0
_PAUSE_S: Final = 1.0


class Shell:
    """Bash in a folder. `names` says what stands here for the hosts, ports and paths of the pages."""

    def __init__(
        self, folder: Path, names: Mapping[str, str] = {}, environment: Mapping[str, str] = {}
    ) -> None:
        self.folder = folder
        self._names = {name: names[name] for name in sorted(names, key=len, reverse=True)}
        own = {name: value for name, value in os.environ.items() if not name.startswith("SHAREDROUTES_")}
        bin_folder = str(Path(sys.executable).parent)
        self._environment = {**own, "PATH": f"{bin_folder}{os.pathsep}{own['PATH']}", **environment}
        self._kept: list[str] = []
        self._staying: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = [command for command, process in self._staying if process.poll() is not None]
        self._end(self._staying, signal.SIGKILL)
        assert kind is not None or not ended, f"{ended} has ended by itself: {self.log()}"

    def put_in(self, text: str) -> str:
        """Return a text of a page with what stands here for what it names."""
        for name, here in self._names.items():
            text = text.replace(name, here)
        return text

    def try_out(self, block: Block) -> None:
        """Run a block; check that it succeeds, and prints what the page shows, or leaves anything at all."""
        before = {*self.folder.iterdir()}
        said = self.run(block.text)
        assert said or {*self.folder.iterdir()} - before, f"{block.place}: nobody can see that it works"
        missing = lacks(said, self.put_in(block.shown))
        assert not missing, f"{block.place} lacks {missing}:\n{said}"

    def until_shown(self, block: Block) -> None:
        """Run a block until it prints what the page shows, as a reader does who waits for a server."""
        if STAY.search(block.text):
            self.run(block.text)
            return
        deadline_s = monotonic() + _PATIENCE_S
        while wrong := self._wrong(block):
            assert monotonic() < deadline_s, f"{block.place}: {wrong}"
            sleep(_PAUSE_S)

    def _wrong(self, block: Block) -> str:
        try:
            said = self.run(block.text)
        except AssertionError as error:
            return str(error)
        missing = lacks(said, self.put_in(block.shown))
        return f"lacks {missing}:\n{said}\n{self.log()}" if missing else ""

    def run(self, text: str) -> str:
        """Run a block of a page; return what it prints. What stays runs on when that has said something."""
        text = self.put_in(re.sub(r"^\$ ", "", text, flags=re.MULTILINE))
        stays = STAY.search(text)
        said = self._finish(text[: stays.start()] if stays else text)
        return said + (self._stay(text[stays.start() :]) if stays else "")

    def end(self, command: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End the commands that stay, and begin as this one."""
        ending = [one for one in self._staying if one[0].startswith(self.put_in(command))]
        assert ending, command
        self._end(ending, how)

    def _end(self, ending: list[tuple[str, subprocess.Popen[bytes]]], how: signal.Signals) -> None:
        for _, process in ending:
            if process.poll() is None:
                os.killpg(process.pid, how)
            process.wait(_ENDS_WITHIN_S)
        self._staying = [one for one in self._staying if one not in ending]

    def log(self) -> str:
        """Return what the commands that stay have printed at last."""
        return "\n".join(path.read_text(errors="replace")[-4_000:] for path in self.folder.glob("stays-*"))

    def _finish(self, text: str) -> str:
        if not text.strip():
            return ""
        done = subprocess.run(
            ("bash", "-e", "-o", "pipefail", "-c", self._before() + _FINDING.sub(_with_findings, text)),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_ENDS_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}\n{self.log()}"
        self._kept += [line for line in text.splitlines() if _KEPT.match(line)]
        return done.stdout + done.stderr

    def _stay(self, text: str) -> str:
        assert len(shlex.split(text)) > 1
        path = self.folder / f"stays-{len([*self.folder.glob('stays-*')])}"
        with path.open("wb") as output:
            process = subprocess.Popen(
                ("bash", "-ec", f"{self._before()}exec {text}"),
                cwd=self.folder,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._staying.append((text, process))
        wait_until(
            lambda: path.read_bytes() or process.poll() is not None,
            timeout_s=_SPEAKS_WITHIN_S,
            pause_s=0.05,
            description=f"{text!r} says something",
        )
        assert process.poll() is None, f"{text}\n{self.log()}"
        return path.read_text(errors="replace")

    def _before(self) -> str:
        return "".join(f"{line}\n" for line in self._kept)


def _with_findings(command: re.Match[str]) -> str:
    """Let doctor find something: there is no error in that, unless it was asked in a wrong way (3)."""
    return f"{{ {command[1].strip()} || test $? -lt 3; }} "
