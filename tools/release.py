"""Makes a release of what is committed and proves it: sdist and wheel, each extra on each Python, audit.

`make release-check`, or `python -m tools.release [--pythons 3.11,3.12,3.13] [--out dist] [--no-audit]`. It
leaves in `--out` what would be uploaded, and a bill of materials (CycloneDX) of the wheel and all its extras.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

ROOT: Final = Path(__file__).resolve().parents[1]
TOOLS: Final = ROOT / ".venv" / "release" / "bin"
"""Where `make release-check` installs the group `release`."""

_ALL: Final = "all extras"
_RELATIVE_LINK: Final = re.compile(r"(!?)(\[[^]]*\]\()(?!https?:|mailto:|#)(?=[^)]+\))")
_QUICK_START: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_IMPORTED: Final[Mapping[str, str]] = {
    "metrics": "sharedroutes.client.observers.prometheus",
    "otel": "sharedroutes.client.observers.otel",
    "spark": "sharedroutes.pipeline",
    "testing": "sharedroutes.testing",
    "uvloop": "uvloop",
}
"""What only the library offers of an extra; the commands say themselves which extras they need."""

_LOAD: Final = """
import importlib, importlib.util, sys
for name in ("sharedroutes.registry", "sharedroutes.client", "sharedroutes.remoting", *sys.argv[1:]):
    module = importlib.import_module(name)
    for exported in getattr(module, "__all__", ()):
        getattr(module, exported)
from sharedroutes.cli.main import COMMANDS, missing_extras
usable = [name for name in COMMANDS if importlib.util.find_spec("click") and not missing_extras([name])]
print(*(name for name in usable if COMMANDS[name].load()))
"""

_ASK: Final = """
import subprocess, sys
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
lasting = RegistryConfig(lease_ttl_s=600.0)  # nobody renews the lease
with EmbeddedServer() as server, RouteStore.from_url(server.url, lasting) as store:
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
    def run(*words, status):
        done = subprocess.run([sys.argv[1], *words, "--redis", server.url], capture_output=True, text=True)
        if done.returncode not in status:
            sys.exit(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout
    topics = run("topics", "--output", "ndjson", status=[0])
    if topics != '{"topic":"orders"}\\n':
        sys.exit(f"topics are {topics!r}")
    run("doctor", "--quick", status=[0, 1])  # it warns of a server that keeps nothing
"""
"""Asks a registry with the script that is its argument."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Make a release and prove it; a step that fails ends the program with what it said."""
    options = _options(arguments)
    began = time.monotonic()

    def step(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="sharedroutes-release-") as scratch:
        source = committed_source(Path(scratch) / "source")
        project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        step(f"sharedroutes {project['version']}: sdist, and the wheel of it")
        sdist, wheel = build(source, options.out)
        check_metadata(project, sdist, wheel)
        extras = list(project["optional-dependencies"])
        for python in options.pythons:
            for label, chosen in (("core", []), *((extra, [extra]) for extra in extras), (_ALL, extras)):
                used = prove(wheel, chosen, python, Path(scratch) / python / label)
                step(f"Python {python}, {label}: {used}")
        bill = options.out / f"{wheel.name.partition('-py3')[0]}.cdx.json"
        step(f"bill of materials: {bill_of_materials(Path(scratch) / options.pythons[0] / _ALL, bill)}")
    step(audit() if options.audit else "the dependencies were NOT audited: --no-audit")
    step(f"{options.out}: ready to upload")


def committed_source(folder: Path) -> Path:
    """Write what is committed to a folder, with links in the README that work on an index too."""
    folder.mkdir()
    if changed := _run("git", "status", "--porcelain", "--untracked-files=no"):
        print(f"not part of the release, since it is not committed:\n{changed}", file=sys.stderr)
    archive = folder.with_suffix(".tar")
    _run("git", "archive", "--output", str(archive), "HEAD")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = folder / "README.md"
    text = with_absolute_links(
        readme.read_text(encoding="utf-8"), project["urls"]["Source"], project["version"]
    )
    readme.write_text(text, encoding="utf-8")
    return folder


def with_absolute_links(text: str, home: str, version: str) -> str:
    """Return Markdown whose relative links lead to the files of a version at the project's home.

    A picture is loaded from there as it is, and not as the page about it.
    """
    return _RELATIVE_LINK.sub(
        lambda found: f"{found[0]}{home}/{'raw' if found[1] else 'blob'}/v{version}/", text
    )


def build(source: Path, out: Path) -> tuple[Path, Path]:
    """Build the sdist and the wheel of it into a folder, from which older ones go."""
    out.mkdir(parents=True, exist_ok=True)
    for older in (*out.glob("sharedroutes-*.tar.gz"), *out.glob("sharedroutes-*.whl")):
        older.unlink()
    _run(TOOLS / "python", "-m", "build", "--installer", "uv", "--outdir", out, source)
    (sdist,), (wheel,) = out.glob("sharedroutes-*.tar.gz"), out.glob("sharedroutes-*.whl")
    return sdist, wheel


def check_metadata(project: Mapping[str, Any], sdist: Path, wheel: Path) -> None:
    """Check that an index takes and renders both files, and that the wheel says what the project does."""
    _run(TOOLS / "twine", "check", "--strict", sdist, wheel)
    with ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        told = HeaderParser().parsestr(packed.read(name).decode())
    urls = [f"{label}, {url}" for label, url in project["urls"].items()]
    if told.get_all("Project-URL") != urls or told["Requires-Python"] != project["requires-python"]:
        sys.exit(f"{name} does not say what pyproject.toml says:\n{told}")


def prove(wheel: Path, extras: Sequence[str], python: str, environment: Path) -> str:
    """Install the wheel with extras in a clean environment and use what they bring; return what that was."""
    _run(TOOLS / "uv", "venv", "--quiet", "--python", python, environment)
    run = environment / "bin" / "python"
    wanted = f"{wheel}[{','.join(extras)}]" if extras else wheel
    _run(TOOLS / "uv", "pip", "install", "--quiet", "--python", run, wanted)
    _run(TOOLS / "uv", "pip", "check", "--quiet", "--python", run)
    imported = [module for name, module in _IMPORTED.items() if name in extras]
    commands = _run(run, "-I", "-W", "error", "-c", _LOAD, *imported, cwd=environment).split()
    done = [*imported, f"{len(commands)} commands"]
    if "embedded" in extras:
        (code,) = _QUICK_START.findall((ROOT / "README.md").read_text(encoding="utf-8"))[:1]
        _run(run, "-I", "-W", "error", "-c", code, cwd=environment)
        done.append("the quick start")
    done.append(_script(environment, wheel, asks={"cli", "embedded"} <= {*extras}))
    return ", ".join(done)


def _script(environment: Path, wheel: Path, *, asks: bool) -> str:
    """Run the script that the wheel installs; it has to know its version, and to answer if it `asks`."""
    script = environment / "bin" / "sharedroutes"
    told, version = _run(script, "--version", cwd=environment), wheel.name.split("-")[1]
    if told != f"sharedroutes, version {version}\n":
        sys.exit(f"{script} --version says {told!r}")
    if not asks:
        return "sharedroutes --version"
    _run(environment / "bin" / "python", "-I", "-c", _ASK, str(script), cwd=environment)
    return "sharedroutes --version, topics, doctor"


def bill_of_materials(environment: Path, bill: Path) -> str:
    """Write what an environment holds, as CycloneDX; return the file's name and how much there is."""
    _run(
        *(TOOLS / "cyclonedx-py", "environment", "--output-reproducible", "--mc-type", "library"),
        *("--pyproject", ROOT / "pyproject.toml", "--output-file", bill, environment / "bin" / "python"),
    )
    return f"{bill.name}, {len(json.loads(bill.read_text(encoding='utf-8'))['components'])} components"


def audit() -> str:
    """Look up known vulnerabilities of every pinned dependency; return that there are none."""
    pins = ROOT / "requirements" / "constraints.txt"
    _run(TOOLS / "pip-audit", "--strict", "--no-deps", "--disable-pip", "--requirement", pins)
    return "no known vulnerability in what requirements/constraints.txt pins"


def _run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command and return its output; end the program with its words when it fails."""
    words = [str(word) for word in command]
    # Python of pyenv are not on PATH by their names, and those of uv may not be reachable.
    found = [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin"))]
    path = os.pathsep.join((str(TOOLS), *found, os.environ["PATH"]))
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)[:500]}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--pythons",
        type=lambda text: text.split(","),
        default=["3.11", "3.12", "3.13"],
        help="versions, comma",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the files of the release")
    parser.add_argument(
        "--no-audit",
        dest="audit",
        action="store_false",
        help="where no service of vulnerabilities is reachable",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
