"""A file system on this disk for tests of publishing: it counts its steps, and dies before any of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from sharedroutes.pipeline.ingest.files import HadoopFiles


class Killed(BaseException):
    """The process is gone; nobody handles that."""


class Disk(HadoopFiles):
    """Does the same without Spark; after `steps` changes of the disk the process is killed."""

    def __init__(self, steps: int | None = None) -> None:
        self.left = steps

    def _step(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1

    def names(self, folder: str) -> list[str]:
        return sorted(path.name for path in Path(folder).iterdir()) if Path(folder).is_dir() else []

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def size(self, path: str) -> int:
        where = Path(path)
        return sum(file.stat().st_size for file in (where, *where.rglob("*")) if file.is_file())

    def rename(self, source: str, target: str) -> None:
        self._step()
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        self._step()
        assert not Path(target).exists(), target
        Path(source).rename(target)

    def delete(self, path: str) -> None:
        """Delete in as many steps as there are files: a kill leaves some."""
        where = Path(path)
        for file in sorted(where.rglob("*")):
            if file.is_file():
                self._step()
                file.unlink()
        if where.is_dir():
            shutil.rmtree(where)
        else:
            where.unlink(missing_ok=True)

    def read(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        unfinished = Path(path).with_name(f"_unfinished-{Path(path).name}")
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        self._step()
        unfinished.write_text(text, encoding="utf-8")
        self.rename(str(unfinished), path)


def rows_on(out: Path, table: str = "changes") -> list[str]:
    """Return the rows that a reader sees who lists all files of a table: a line of a file is a row."""
    files = [path for path in (out / table).rglob("*.rows") if not path.name.startswith(("_", "."))]
    return sorted(row for file in files for row in file.read_text(encoding="utf-8").split())
