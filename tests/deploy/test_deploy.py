"""The tools of those who run images, Kubernetes and systemd find nothing wrong in the files under deploy/."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tests.deploy.files import AGENT, FRONT, ROOT, Deployed, run, tool

pytestmark = pytest.mark.parametrize("deployed", [AGENT, FRONT], ids=["agent", "front"])
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs Debian's systemd")
needs_hadolint = pytest.mark.skipif(
    sys.platform == "darwin" and not Path(sys.executable).with_name("hadolint").exists(),
    reason="its package has none for macOS",
)


@needs_hadolint
def test_hadolint_finds_nothing_in_the_dockerfile(deployed: Deployed) -> None:
    done = run(tool("hadolint"), str(deployed.dockerfile))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_kubernetes_file_is_valid(deployed: Deployed) -> None:
    done = run(tool("kubernetes-validate"), "--strict", str(deployed.kubernetes))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == len(deployed.objects())


@needs_systemd
def test_systemd_takes_the_unit(deployed: Deployed, tmp_path: Path) -> None:
    copy = tmp_path / deployed.unit.name
    text = deployed.unit.read_text(encoding="utf-8")
    # systemd looks whether the program is there
    copy.write_text(text.replace("/opt/sharedroutes/bin/sharedroutes", tool("sharedroutes")))
    done = run("systemd-analyze", "verify", str(copy))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_systemd_calls_the_unit_hardened(deployed: Deployed) -> None:
    words = ("--no-pager", "--offline=true", "--threshold=20")
    done = run("systemd-analyze", "security", *words, str(deployed.unit))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level" in done.stdout


def test_all_that_the_image_is_built_from_is_let_in(deployed: Deployed) -> None:
    lines = deployed.folder.joinpath("Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {path.partition("/")[0] for path in project["tool"]["setuptools"]["package-dir"].values()}
    named = {
        project["project"]["readme"],
        *project["project"]["license-files"],
        "pyproject.toml",
        "MANIFEST.in",
    }
    assert folders | named | {"requirements"} == let_in
    assert all((ROOT / name).exists() for name in let_in)


def test_the_image_runs_as_nobody_special(deployed: Deployed) -> None:
    uid, gid = deployed.instruction("USER").split(":")
    assert int(uid) > 0
    assert int(gid) > 0
