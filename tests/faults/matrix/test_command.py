"""What the command of the matrix says before it starts anything."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.faults.matrix.command import main


def test_the_history_of_another_run_is_not_mixed_with_this_one(tmp_path: Path) -> None:
    (tmp_path / "standalone").mkdir()
    ran = CliRunner().invoke(main, ["--out", str(tmp_path)])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"{tmp_path} is not empty: name a new folder" in ran.stderr
