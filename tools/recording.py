"""Makes docs/watch.svg: `sharedroutes watch` at a real terminal, while a broker is killed and comes back.

`python -m tools.recording [FILE]`. Server, agent and brokers are real processes; it takes half a minute.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

from sharedroutes.registry import EmbeddedServer
from tests.broker_agent.agent_site import AgentProcess
from tests.broker_agent.data_files import topics_json
from tests.broker_agent.stand_ins import BrokerProcess
from tests.cli.watch.at_terminal import Terminal
from tools.animation import Frame, animated
from tools.pages import DOCS

PICTURE: Final = DOCS / "watch.svg"
_TITLE: Final = "sharedroutes watch"
_MEANING: Final = (
    "A terminal: three brokers with leases that run down. One is killed; it is dead in the list at once, and "
    "a topic that only it had is a fault. It starts again, and is live again."
)
_HOSTED: Final = {
    "broker-a": ("orders", "payments", "stock"),
    "broker-b": ("orders", "payments", "invoices"),
    "broker-c": ("orders", "mails", "stock"),
}
_KILLED: Final = "broker-b"


@contextmanager
def fleet(folder: Path, url: str) -> Iterator[dict[str, BrokerProcess]]:
    """Run three brokers and one agent for them until the end of the block."""
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(BrokerProcess()) for name in _HOSTED}
        tables = "".join(_furnished(folder / name, name, brokers[name].port) for name in _HOSTED)
        config = folder / "agent.toml"
        config.write_text(tables, encoding="utf-8")
        stack.enter_context(AgentProcess(folder, "--config", str(config), "--redis", url, "--http", "off"))
        yield brokers


def _furnished(folder: Path, name: str, port: int) -> str:
    """Write the files of a broker; return its table for agent.toml."""
    table = folder / "config" / "topics.json"
    table.parent.mkdir(parents=True)
    table.write_bytes(topics_json(*_HOSTED[name]))
    conf = folder / "broker.conf"
    conf.write_text(
        f"brokerName = {name}\nbrokerClusterName = shop\nbrokerIP1 = 127.0.0.1\nlistenPort = {port}\n"
        f"storePathRootDir = {folder}\n",
        encoding="utf-8",
    )
    return f'[[broker]]\nbroker_conf = "{conf}"\n'


class Recorder:
    """Keeps what a terminal has shown, and since when."""

    def __init__(self, terminal: Terminal) -> None:
        self.frames: list[Frame] = []
        self._terminal = terminal
        self._began_s = monotonic()

    def go_on(self, caption: str, seconds: float, *, until: str = "") -> None:
        """Record until a text is to be seen, and then for some seconds more."""
        end_s = monotonic() + seconds
        awaited = bool(until)
        while awaited or monotonic() < end_s:
            shown = self._terminal.read()
            if awaited and until in shown:
                awaited, end_s = False, monotonic() + seconds
            frame = Frame.of(self._terminal.screen, monotonic() - self._began_s, caption)
            if not self.frames or frame.differs(self.frames[-1]):
                self.frames.append(frame)


def recorded(terminal: Terminal, brokers: dict[str, BrokerProcess]) -> list[Frame]:
    """Play the scene; return what was to be seen."""
    terminal.until("3 live, 0 dead")
    recorder = Recorder(terminal)
    recorder.go_on("three brokers, each with a lease that its agent renews", 4.0)
    brokers[_KILLED].kill()
    recorder.go_on(f"$ kill -9 {_KILLED}: its agent says so within milliseconds", 3.5, until="2 live, 1 dead")
    terminal.press(b"2")
    recorder.go_on("2: which topics have lost a broker?", 3.5, until="live brokers")
    terminal.press(b"4")
    recorder.go_on("4: what is wrong?", 3.5, until="fault")
    terminal.press(b"1")
    brokers[_KILLED].start()
    recorder.go_on(f"{_KILLED} starts again", 4.0, until="3 live, 0 dead")
    terminal.press(b"3")
    recorder.go_on("3: what has happened?", 4.0, until="of what")
    terminal.press(b"q")
    terminal.ended()
    return recorder.frames


def main() -> None:
    """Record the scene, and write the picture."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    with (
        tempfile.TemporaryDirectory(prefix="sharedroutes-recording-") as scratch,
        EmbeddedServer() as server,
        fleet(Path(scratch), server.url) as brokers,
        closing(Terminal(server.url, TERM="xterm-256color", COLORTERM="truecolor")) as terminal,
    ):
        frames = recorded(terminal, brokers)
    target.write_text(animated(frames, _TITLE, _MEANING), encoding="utf-8")
    print(f"{target}: {len(frames)} frames, {target.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
