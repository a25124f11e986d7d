"""The kustomize base and the example overlay: what they build is valid, and nothing is left out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.files import AGENT, FRONT, KUSTOMIZE, run, tool

BASE: Final = KUSTOMIZE / "base"
FOLDERS: Final = (BASE, KUSTOMIZE / "agent", KUSTOMIZE / "nameserver", KUSTOMIZE / "example")


def builder() -> tuple[str, str]:
    """Return the command that builds a folder: of kubectl, which has kustomize in it, or of kustomize."""
    if shutil.which("kubectl"):
        return "kubectl", "kustomize"
    if found := shutil.which(tool("kustomize")) or shutil.which("kustomize"):
        return found, "build"
    if os.environ.get("CI") == "true":
        pytest.fail("no kubectl and no kustomize: make kustomize")
    return pytest.skip("no kubectl and no kustomize: make kustomize")


def built(folder: Path) -> list[dict[str, Any]]:
    done = run(*builder(), str(folder))
    assert (done.returncode, done.stderr) == (0, "")  # what is deprecated is said there
    return list(yaml.safe_load_all(done.stdout))


def named(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["kind"], one["metadata"]["name"]) for one in objects}


def of_file(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_what_is_built_is_valid(folder: Path, tmp_path: Path) -> None:
    objects = built(folder)
    file = tmp_path / "built.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    done = run(tool("kubernetes-validate"), "--strict", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == len(objects)


def test_the_base_is_all_of_the_agent_s_and_of_the_fronts_file() -> None:
    every = [*of_file(AGENT.kubernetes), *of_file(FRONT.kubernetes)]
    assert named(built(BASE)) == named(every)
    for one in built(BASE):
        assert one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "sharedroutes"


def test_a_label_of_all_parts_selects_nobody() -> None:
    """Selectors cannot be changed later, so the base must not add to them."""
    for one in built(BASE):
        assert "part-of" not in str(one["spec"].get("selector", "") if "spec" in one else "")


def test_the_overlay_changes_what_it_says() -> None:
    objects = {(one["kind"], one["metadata"]["name"]): one for one in built(KUSTOMIZE / "example")}
    assert {one["metadata"]["namespace"] for one in objects.values()} == {"messaging"}
    fronts, broker = objects["Deployment", "nameserver"], objects["StatefulSet", "broker-a"]
    assert fronts["spec"]["replicas"] == 3
    pods = [one["spec"]["template"]["spec"] for one in (fronts, broker)]
    images = [each["image"] for pod in pods for each in (*pod.get("initContainers", ()), *pod["containers"])]
    ours = [image for image in images if "sharedroutes" in image]
    assert len(ours) == 2
    assert all(image.startswith("registry.example.com/sharedroutes-") for image in ours)
    (claim,) = broker["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "100Gi"
