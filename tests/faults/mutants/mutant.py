"""What a deliberate fault of the product is, and how it is made and undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """A text that stands once in a file, and what takes its place."""

    path: str
    """Below the root of the repository."""

    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Edit the file below `root`; raises ValueError where the text does not stand exactly once."""
        path = root / self.path
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path}: {self.old!r} stands there {text.count(self.old)} times, not once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A product that breaks a promise."""

    name: str
    says: str
    """What it does wrong."""

    faults: tuple[str, ...]
    """The faults of the matrix that show it."""

    edits: tuple[Edit, ...]
    store: str = "standalone"
    """The kind of store on which they show it."""

    @contextmanager
    def applied(self, root: Path) -> Iterator[None]:
        """Edit the files below `root` for the length of a block; raises ValueError."""
        before = {root / edit.path: (root / edit.path).read_bytes() for edit in self.edits}
        try:
            for edit in self.edits:
                edit.apply(root)
            yield
        finally:
            for path, content in before.items():
                path.write_bytes(content)
