"""Tells which extra has to be installed when a module of it is not there."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["lacking"]


def lacking(extra: str, *modules: str) -> str | None:
    """Return in one line what is missing and how to install it; None when all the modules are there."""
    missing = [name for name in modules if find_spec(name) is None]
    return f"missing {' and '.join(missing)}: run `pip install 'sharedroutes[{extra}]'`" if missing else None
