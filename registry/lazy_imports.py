"""Names and modules that are imported when they are first asked for: quick to import, small in memory.

What a long-running process needs is imported at its start: later, an upgrade may have replaced the files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import LazyLoader, find_spec, module_from_spec


def lazy_imports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package (PEP 562), for names and the modules that have them.

    No module of the package may be called as one of the names.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted({*vars(sys.modules[package]), *modules})


def import_late(name: str) -> None:
    """Have a module of a package run when something of it is used, and not by `from package import module`.

    For processes of our own: in others it is not ours to say how modules are imported.
    """
    spec = find_spec(name)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    package, _, last = name.rpartition(".")
    setattr(sys.modules[package], last, module)
