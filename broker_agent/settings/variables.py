"""Finds variables that look like settings of the agent and are none: a misspelt one would say nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ..option import CONFIG_VARIABLE, OPTIONS, PREFIX

_OF_OTHERS: Final = frozenset(
    ("SHAREDROUTES_REDIS_SERVER", "SHAREDROUTES_EXAMPLES", "SHAREDROUTES_ROCKETMQ_JARS")
)
"""What other parts of the project read."""

_OF_A_SERVICE: Final = re.compile(r"_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_|$)")
"""What Kubernetes, and Docker's links, set for a service of our name."""


def unknown(names: Iterable[str]) -> list[str]:
    """Return a sentence for each of these variables that begins as a setting and is none."""
    known = {option.variable for option in OPTIONS} | {CONFIG_VARIABLE}
    return [
        f"{name}: is not a setting of the agent, and is left aside{_hint(name, known)}"
        for name in sorted(names)
        if name.startswith(PREFIX) and name not in known | _OF_OTHERS and not _OF_A_SERVICE.search(name)
    ]


def _hint(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it, and it stays in memory

    stems = [one.removeprefix(PREFIX) for one in known]  # what all begin with would make all of them near
    nearest = get_close_matches(name.removeprefix(PREFIX), stems, n=1)
    return f"; did you mean {PREFIX}{nearest[0]}?" if nearest else ""
