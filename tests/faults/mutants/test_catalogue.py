"""Each mutant is an edit of the product as it is now, and names faults that there are."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.faults.matrix.kinds.all import KINDS
from tests.faults.mutants.catalogue import MUTANTS
from tests.faults.mutants.mutant import Edit, Mutant

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_the_product_and_is_undone(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    paths = [tmp_path / edit.path for edit in mutant.edits]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path.relative_to(tmp_path), path)
    before = [path.read_bytes() for path in paths]
    with mutant.applied(tmp_path):
        for path, content in zip(paths, before, strict=True):
            assert path.read_bytes() != content
            if path.suffix == ".py":
                ast.parse(path.read_bytes())
    assert [path.read_bytes() for path in paths] == before
    assert {*mutant.faults} <= KINDS.keys()


def test_an_edit_that_fits_nothing_names_the_text_and_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "one.lua").write_text("return 1\n")
    mutant = Mutant("m", "", (), (Edit("one.lua", "1", "2"), Edit("one.lua", "3", "4")))
    with pytest.raises(ValueError, match="'3' stands there 0 times"), mutant.applied(tmp_path):
        pass
    assert (tmp_path / "one.lua").read_text() == "return 1\n"
