"""What the documentation site is made of, what is checked of it, and that it is built without a warning."""

from __future__ import annotations

import http.server
import importlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tools import site

ROOT: Final = Path(__file__).resolve().parents[1]
TOOLS: Final = ROOT / ".venv" / "docs" / "bin" / "python"


def put(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(path.suffix or ".md").write_text(text, encoding="utf-8")
    return folder


def gathered(root: Path) -> dict[str, str]:
    pages = root / "build"
    site.gather(root, pages)
    found = (path for path in pages.rglob("*") if path.is_file())
    return {path.relative_to(pages).as_posix(): path.read_text(encoding="utf-8") for path in found}


def test_links_out_of_docs_lead_to_pages_of_the_site(tmp_path: Path) -> None:
    put(
        tmp_path, docs__guide="[what is new](../CHANGELOG.md#added) [run](../run.py)", CHANGELOG="# Changes\n"
    )
    (tmp_path / "run.py").write_text("print(1)\n", encoding="utf-8")
    pages = gathered(tmp_path)
    assert pages["guide.md"] == "[what is new](changelog.md#added) [run](source/run.py.md)"
    assert pages["changelog.md"] == "# Changes\n"
    assert "print(1)" in pages["source/run.py.md"]


def test_a_page_outside_docs_is_gathered_with_what_it_links_to(tmp_path: Path) -> None:
    put(
        tmp_path,
        docs__sub__page="text",
        examples__README="[a](../docs/sub/page.md) [b](b.md)",
        examples__b="b",
    )
    pages = gathered(tmp_path)
    assert pages["examples/index.md"] == "[a](../sub/page.md) [b](../examples/b.md)"
    assert pages["examples/b.md"] == "b"


def test_code_and_links_to_other_sites_stay_as_they_are(tmp_path: Path) -> None:
    text = "```text\n[a](other.md)\n```\n[b](https://example.org/x.md) [c](#here) [d](missing.md)\n"
    put(tmp_path, docs__page=text, docs__other="")
    assert gathered(tmp_path)["page.md"] == text


def test_what_is_gone_is_no_page_any_more_and_what_is_the_same_is_not_touched(tmp_path: Path) -> None:
    put(tmp_path, docs__a="a", docs__b="b")
    gathered(tmp_path)
    before = (tmp_path / "build" / "a.md").stat().st_mtime_ns
    (tmp_path / "docs" / "b.md").unlink()
    assert gathered(tmp_path) == {"a.md": "a"}
    assert (tmp_path / "build" / "a.md").stat().st_mtime_ns == before


GOOD: Final = '<h1 id="top">x</h1><a href="b.html#there">b</a><a href="#top">t</a><img src="x.png">'


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ("", None),
        ('<a href="c.html">', "there is no c.html"),
        ('<a href="b.html#nowhere">', "there is no place b.html#nowhere"),
        ('<a href="#nowhere">', "there is no place #nowhere"),
        ('<img src="y.png">', "there is no y.png"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
    ],
)
def test_a_link_that_leads_nowhere_and_a_thing_from_elsewhere_are_told(
    tmp_path: Path, html: str, problem: str | None
) -> None:
    (tmp_path / "a.html").write_text(GOOD + html, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h2 id="there">y</h2>', encoding="utf-8")
    (tmp_path / "x.png").touch()
    assert [*site.problems(tmp_path)] == ([] if problem is None else [f"a.html: {problem}"])


@contextmanager
def served(folder: Path) -> Iterator[str]:
    def handler(*args: object) -> http.server.BaseHTTPRequestHandler:
        return Quiet(*args, directory=str(folder))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base's
        pass


def test_links_to_other_sites_are_asked_on_request(tmp_path: Path) -> None:
    (tmp_path / "there.html").touch()
    with served(tmp_path) as url:
        links = f'<a href="{url}/there.html#x">a</a><a href="{url}/gone.html">b</a>'
        (tmp_path / "index.html").write_text(links, encoding="utf-8")
        found = site.external(tmp_path)
        assert found == {f"{url}/there.html", f"{url}/gone.html"}
        assert [*site.unreachable(found)] == [f"{url}/gone.html: 404"]
    assert [*site.unreachable({f"{url}/there.html"})]


def test_the_reference_has_all_that_the_packages_of_its_pages_export() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = re.findall(r"^::: ([\w.]+)\.(\w+)$", pages, re.MULTILINE)
    assert len(shown) == len(set(shown))
    for package in {package for package, _ in shown}:
        exported = importlib.import_module(package).__all__
        assert {name for one, name in shown if one == package} == {*exported}, package


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.name))
def test_every_page_has_its_place_in_the_site(page: Path) -> None:
    named = page.relative_to(ROOT / "docs").as_posix()
    assert f'"{named}"' in (ROOT / "zensical.toml").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_every_link_leads_somewhere() -> None:
    if not TOOLS.exists() and os.environ.get("CI") != "true":
        pytest.skip("its tools are not installed: make docs")
    done = subprocess.run(
        [TOOLS, "tools/site.py", "build"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [*site.problems(site.SITE)]
    assert (site.SITE / "tutorial.html").is_file()
