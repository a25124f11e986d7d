"""The fault matrix: `python -m tests.faults --help`."""

from __future__ import annotations

from tests.faults.matrix.command import main

if __name__ == "__main__":
    main()
