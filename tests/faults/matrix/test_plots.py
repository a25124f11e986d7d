"""The plots of a run are well-formed, and have a line for each process and a band for each fault."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from tests.faults.checker.history import Event, Fault, Run, Sent, Usage
from tests.faults.matrix.plots import write_plots
from tests.faults.matrix.settings import BOUNDS

RUN = Run(at_us=1, who="driver", deployment="aof", seed=1, bounds=BOUNDS)


def usage(at_us: int, process: str, rss_kb: int) -> Usage:
    return Usage(
        at_us=at_us,
        who="driver",
        process=process,
        phase="during",
        rss_kb=rss_kb,
        threads=1,
        descriptors=9,
        connections=3,
    )


def test_lines_and_bands_are_drawn(tmp_path: Path) -> None:
    fault = Fault(at_us=2_000_001, who="scheduler", name="cut <off>", target="agent-a", phase="begin")
    sent = Sent(
        at_us=1_500_001,
        who="client",
        message="1",
        topic="t",
        broker="b",
        address="h:1",
        attempt=1,
        ok=True,
        began_us=1_400_001,
    )
    history: list[Event] = [
        RUN,
        usage(1_000_001, "agent-a", 10),
        sent,
        fault,
        usage(9_000_001, "front-1", 20),
    ]
    paths = [*write_plots(tmp_path, "aof", history)]
    assert [path.name for path in paths] == ["aof-memory.svg", "aof-descriptors.svg", "aof-latency.svg"]
    drawn = [ET.fromstring(path.read_text()) for path in paths]  # noqa: S314 - we have just written it
    name = "{http://www.w3.org/2000/svg}"
    assert [len(chart.findall(f"{name}polyline")) for chart in drawn] == [2, 2, 2]
    assert [chart.findtext(f"{name}rect/{name}title") for chart in drawn] == ["cut <off>"] * 3
