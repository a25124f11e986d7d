"""Imports names of a package when they are first asked for: no agent needs what operators do to a registry.

What an agent does need is imported at its start: later, an upgrade may have replaced the files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazily(
    package: str, names: Iterable[str], modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package (PEP 562).

    `names` are all that it has, and `modules` those of them that are imported later, each with the module of
    the package that has it; no module may be called as one of the names.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted({*vars(sys.modules[package]), *names})
