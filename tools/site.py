"""Builds the documentation site: gathers its pages, has Zensical make it, and checks all links of it.

`python tools/site.py build [--external]` leaves it in build/site; `... serve` shows it while pages change.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ROOT / "build" / "pages"
SITE: Final = ROOT / "build" / "site"
"""As in zensical.toml."""

_ALSO: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
"""Pages of the site that do not stand in docs/."""

_LINK: Final = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE: Final = re.compile(r"^ *(```|~~~)")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
_LOADED: Final = {"script": "src", "img": "src", "iframe": "src", "link": "href"}
_EXTERNAL_WAIT_S: Final = 20.0


def gather(root: Path = ROOT, pages: Path = PAGES) -> None:
    """Write the pages: docs/, and what it links to outside, with links to where that stands here."""
    waiting = [path for path in (root / "docs").rglob("*") if path.is_file()]
    waiting += [root / name for name in _ALSO if (root / name).is_file()]
    written = set()
    while waiting:
        source = waiting.pop()
        place = pages / place_of(source, root)
        if place in written:
            continue
        written.add(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text, linked = rewritten(source, root)
            waiting += linked
            _write(place, text.encode())
        elif place.suffix == ".md":
            _write(place, _as_page(source, root).encode())
        else:
            _write(place, source.read_bytes())
    for stale in [path for path in pages.rglob("*") if path.is_file() and path not in written]:
        stale.unlink()


def place_of(source: Path, root: Path = ROOT) -> Path:
    """Return where a file of the repository stands among the pages."""
    if source == root / "README.md":
        return Path("index.md")
    if source.is_relative_to(root / "docs"):
        return source.relative_to(root / "docs")
    within = source.relative_to(root)
    if source.suffix != ".md":
        return Path("source", f"{within}.md")
    return within.with_name("index.md" if within.name == "README.md" else within.name.lower())


def rewritten(page: Path, root: Path = ROOT) -> tuple[str, list[Path]]:
    """Return the text of a page with links as they are here, and the files outside docs/ that it names."""
    linked: list[Path] = []
    here = place_of(page, root).parent

    def link(match: re.Match[str]) -> str:
        target = (page.parent / unquote(match[1])).resolve()
        if urlsplit(match[1]).scheme or not target.is_relative_to(root) or not target.exists():
            return match[0]
        if target.is_dir():
            target /= "README.md"
        if not target.is_relative_to(root / "docs") and target != root / "README.md":
            linked.append(target)
        return Path(*_steps(here), place_of(target, root)).as_posix() + (match[2] or "")

    return "".join(
        _outside_fences(page.read_text(encoding="utf-8"), lambda line: _LINK.sub(link, line))
    ), linked


def _steps(folder: Path) -> Iterator[str]:
    return (".." for _ in folder.parts)


def _outside_fences(text: str, change: Callable[[str], str]) -> Iterator[str]:
    inside = False
    for line in text.splitlines(keepends=True):
        fence = bool(_FENCE.match(line))
        yield line if inside or fence else change(line)
        inside ^= fence


def _as_page(source: Path, root: Path) -> str:
    name = source.relative_to(root).as_posix()
    text = source.read_text(encoding="utf-8")
    return f"# {name}\n\n````{_LANGUAGES.get(source.suffix, 'text')}\n{text.rstrip()}\n````\n"


def _write(place: Path, content: bytes) -> None:
    """Leave files alone that are as they should be: the server builds anew what was touched."""
    if not place.is_file() or place.read_bytes() != content:
        place.write_bytes(content)


@dataclass
class _Html(HTMLParser):
    """What a page of HTML has: places that links may name, links, and what a browser loads."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        found = {name: value for name, value in attrs if value}
        self.ids |= {found[name] for name in ("id", "name") if name in found and tag != "meta"}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in _LOADED and _LOADED[tag] in found and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(found[_LOADED[tag]])


def read(site: Path) -> dict[Path, _Html]:
    """Return what the pages of a site have."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        found[path] = _Html()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def problems(site: Path) -> Iterator[str]:
    """Yield each link within the site that leads nowhere, and each thing that is loaded from another site."""
    pages = read(site)
    for path, page in pages.items():
        where = path.relative_to(site)
        for target in page.loads:
            if urlsplit(target).netloc:
                yield f"{where}: loads {target}"
            elif urlsplit(target).path and not _leads(path, target, site).exists():
                yield f"{where}: there is no {target}"
        for target in page.links:
            split = urlsplit(target)
            if split.scheme or split.netloc or path.name == "404.html":
                continue
            other = _leads(path, target, site)
            if not other.exists():
                yield f"{where}: there is no {target}"
            elif split.fragment and unquote(split.fragment) not in pages[other].ids | {"__top"}:
                yield f"{where}: there is no place {target}"


def _leads(path: Path, target: str, site: Path) -> Path:
    named = unquote(urlsplit(target).path)
    if not named:
        return path
    other = site / named.lstrip("/") if named.startswith("/") else (path.parent / named).resolve()
    return other / "index.html" if other.is_dir() else other


def external(site: Path) -> set[str]:
    """Return the links to other sites."""
    links = {link for page in read(site).values() for link in page.links}
    return {link.partition("#")[0] for link in links if urlsplit(link).scheme in ("http", "https")}


def unreachable(links: Iterable[str]) -> Iterator[str]:
    """Yield each link to another site that does not answer with a page."""
    with ThreadPoolExecutor(8) as pool:
        yield from filter(None, pool.map(_asked, sorted(links)))


def _asked(link: str) -> str:
    request = Request(link, headers={"User-Agent": "sharedroutes-docs"})  # noqa: S310 - http(s) alone
    try:
        with urlopen(request, timeout=_EXTERNAL_WAIT_S):  # noqa: S310
            return ""
    except HTTPError as error:
        return f"{link}: {error.code}"
    except OSError as error:
        return f"{link}: {error}"


def build(*, also_external: bool) -> int:
    """Make the site and check it; return the exit status."""
    gather()
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=False
    )
    if done.returncode:
        return done.returncode
    found = [*problems(SITE), *(unreachable(external(SITE)) if also_external else ())]
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    print(f"{SITE / 'index.html'}: {sum(1 for _ in SITE.rglob('*.html'))} pages")
    return int(bool(found))


def serve(address: str) -> int:
    """Show the site until ctrl-C, and gather the pages anew each second."""
    gather()
    server = subprocess.Popen([sys.executable, "-m", "zensical", "serve", "--dev-addr", address], cwd=ROOT)
    try:
        while server.poll() is None:
            time.sleep(1)
            gather()
    except KeyboardInterrupt:
        server.terminate()
    return server.wait()


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("--external", action="store_true", help="ask other sites, too")
    commands.add_parser("serve").add_argument("--at", default="127.0.0.1:8000", metavar="HOST:PORT")
    said = parser.parse_args()
    return build(also_external=said.external) if said.command == "build" else serve(said.at)


if __name__ == "__main__":
    sys.exit(main())
