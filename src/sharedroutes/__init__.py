"""A Redis-backed shared route registry for message brokers."""

import logging
from typing import TYPE_CHECKING

__all__ = ["__version__"]

__version__: str

logging.getLogger(__name__).addHandler(logging.NullHandler())

if not TYPE_CHECKING:  # a type checker would take every name for one of this module

    def __getattr__(name: str) -> str:
        """Look `__version__` up when it is asked for: few do, and it takes 10 ms."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

        try:
            return version("sharedroutes")
        except PackageNotFoundError:  # run from a checkout that was never installed
            return "0+uninstalled"
