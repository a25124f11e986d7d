"""The page of the benchmarks: runs are merged, plots are well-formed, and what was measured is all there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from benchmarks.kit.command import to_json
from benchmarks.kit.figures import Figure, Outcome, at_most
from benchmarks.kit.machine import Machine
from benchmarks.peers import register
from benchmarks.report import scale
from benchmarks.report.__main__ import main
from benchmarks.report.page import figures, plots, text
from benchmarks.report.runs import Run, by_registry, merged

DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def run(name: str, *figures: Figure, date: str = "2026-01-02", quick: bool = False) -> Run:
    """Return what a run of one benchmark writes."""
    machine = Machine("EPYC", 2, "Linux", "3.11.7", "Redis 7.0.15", date, {"etcd": "3.4.23"})
    outcome = Outcome(figures, ["a note of it"])
    found: Run = json.loads(to_json(machine, {name: ("How long?", outcome)}, load=(0.5, 1.5), quick=quick))
    return found


OURS = Figure(f"{register.WHAT}: sharedroutes", "ms", (3.0, 4.0, 5.0), at_most(5))
ETCD = Figure(f"{register.WHAT}: etcd <&>", "ms", (130.0, 140.0, 1500.0))
RATIO = Figure(f"{ETCD.name} / {OURS.name}", "x", (35.123456789,))
PEERS = run("peers.register", OURS, ETCD, RATIO)


def test_each_benchmark_is_there_once_from_the_last_run_that_has_it() -> None:
    other = run("heartbeat", Figure("cost", "ms", (7.0,)))
    later = run("heartbeat", Figure("cost", "ms", (8.0,)), date="2026-02-03")
    first = merged([PEERS, other])
    assert [one["name"] for each in first for one in each["benchmarks"]] == ["peers.register", "heartbeat"]
    again = merged([first, later])
    assert [each["machine"]["date"] for each in again] == ["2026-01-02", "2026-02-03"]
    assert again[1]["benchmarks"][0]["figures"][0]["median"] == 8.0


def test_numbers_have_no_more_digits_than_anybody_reads() -> None:
    ratio = merged([PEERS])[0]["benchmarks"][0]["figures"][2]
    assert (ratio["median"], ratio["rounds"]) == (35.123, [35.123])


def test_ratios_are_no_registries() -> None:
    assert [*by_registry([PEERS], register.WHAT)] == ["sharedroutes", "etcd <&>"]


def test_the_page_has_every_figure_its_command_and_the_load() -> None:
    page = text(merged([PEERS]))
    assert "| sharedroutes | 4.00 ms (3.50 to 4.50) |" in page
    assert "[peers.register](benchmarks/peers.register.md)" in page
    (found,) = figures(merged([PEERS])).values()
    assert f"| {OURS.name} | 4.00 | 3.50 to 4.50 | ms | 3 | <= 5, met |" in found
    assert "`python -m benchmarks peers.register`" in found
    assert "- a note of it" in found
    assert "etcd 3.4.23 | 0.5, 1.5 |" in page
    assert "quick run" not in page
    assert "quick run" in text([run("heartbeat", OURS, quick=True)])


def test_a_plot_has_a_bar_for_each_registry_in_the_order_of_its_median() -> None:
    (drawn,) = [ET.fromstring(plot) for plot in plots(merged([PEERS])).values()]  # noqa: S314 - ours
    names = [one.text for one in drawn.findall(f"{SVG}text")]
    assert {"sharedroutes", "etcd <&>", "4.00 ms", "140 ms"} <= {*names}
    widths = [float(one.attrib["width"]) for one in drawn.findall(f"{SVG}rect")[1:]]
    assert widths == sorted(widths)
    assert len(widths) == 2


def test_without_other_registries_there_is_no_plot() -> None:
    assert not plots([run("heartbeat", Figure("cost", "ms", (7.0,)))])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the folder that the command has written for the run of the peers."""
    (tmp_path / "run.json").write_text(json.dumps(PEERS), encoding="utf-8")
    result = CliRunner().invoke(main, [str(tmp_path / "run.json"), str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    return tmp_path / "out"


def test_the_figures_beside_the_page_make_the_same_page_again(written: Path) -> None:
    runs: Any = merged([json.loads((written / "benchmarks" / "figures.json").read_text(encoding="utf-8"))])
    page = (written / "benchmarks.md").read_text(encoding="utf-8")
    assert text(runs) == page
    for name, found in figures(runs).items():
        assert (written / "benchmarks" / f"{name}.md").read_text(encoding="utf-8") == found
    for name, plot in plots(runs).items():
        assert (written / "benchmarks" / f"{name}.svg").read_text(encoding="utf-8") == plot
        assert f"(benchmarks/{name}.svg)" in page


def test_the_page_of_the_docs_is_made_of_the_figures_beside_it() -> None:
    runs = merged([json.loads((DOCS / "benchmarks" / "figures.json").read_text(encoding="utf-8"))])
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == text(runs)
    shown = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "benchmarks").glob("*.md")}
    assert shown == figures(runs)
    drawn = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "benchmarks").glob("*.svg")}
    prices = scale.prices(runs)
    assert prices is not None
    assert drawn == {**plots(runs), scale.NAME: scale.plot(prices)}
    assert (DOCS / "scale.md").read_text(encoding="utf-8") == scale.text(runs, prices)
