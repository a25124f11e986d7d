"""A name server front: speaks RocketMQ's protocol from the shared table, any number of them as one."""

from ..registry.lazy_imports import import_late

import_late("importlib.metadata")
"""redis-py imports it for its own version, which nobody needs, and so csv, email and zipfile: 1.3 MB."""
