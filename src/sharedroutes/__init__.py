"""A Redis-backed shared route registry for message brokers."""

import logging
from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("sharedroutes")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+uninstalled"

__all__ = ["__version__"]

logging.getLogger(__name__).addHandler(logging.NullHandler())
