"""What a release is checked for; `make release-check` makes and proves one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools import release

HOME = "https://example.org/home"
PROJECT = tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(
    ("link", "on_an_index"),
    [
        ("[a](docs/agent.md#limits)", f"[a]({HOME}/blob/v1.2/docs/agent.md#limits)"),
        ("![a](docs/page.png)", f"![a]({HOME}/raw/v1.2/docs/page.png)"),
        ("[a](https://redis.io) [b](#here)", "[a](https://redis.io) [b](#here)"),
        ("f(x) and [a]", "f(x) and [a]"),
    ],
)
def test_links_of_the_readme_work_on_an_index(link: str, on_an_index: str) -> None:
    assert release.with_absolute_links(link, HOME, "1.2") == on_an_index


def test_each_extra_of_the_library_alone_is_an_extra_of_the_project() -> None:
    assert release._IMPORTED.keys() <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize(
    "said", ["Requires-Python: >=3.11", "Project-URL: Source, https://elsewhere.example"]
)
def test_a_wheel_that_does_not_say_what_the_project_does_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    monkeypatch.setattr(release, "_run", lambda *_: "")
    wheel = tmp_path / "sharedroutes-0.1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as packed:
        packed.writestr("sharedroutes-0.1.0.dist-info/METADATA", f"{said}\n\n")
    with pytest.raises(SystemExit, match=r"does not say what pyproject\.toml says"):
        release.check_metadata(PROJECT, tmp_path / "sdist", wheel)
