"""After an outage of the store: when clients and agents are back, whose pauses between two tries are random.

A client tries again at once, and then after pauses of half a second to its longest one. An agent's pauses
double, up to its longest one. Sources: ClientCore.failed and Planner of the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from .draws import Floats

__all__ = ["agents_back_s", "client_back_s", "most_back_s"]

_CLIENT_FIRST_S: Final = (0.02, 0.1)
_CLIENT_SHORTEST_S: Final = 0.5
_AGENT_FIRST_S: Final = 0.1
_MOST_DOUBLINGS: Final = 20
_AGENT_JITTER_S: Final = 0.2
"""An agent whose lease has ended registers anew within this time after it has heard so."""

_FORGOTTEN: Final = 20.0
"""So many of the longest pauses later it does not matter any more when somebody began to try."""

Draw: TypeAlias = Callable[[int], Floats]
"""Numbers within 0..1, one for each pair, by the number of the step that they are for."""


def client_back_s(rng: np.random.Generator, lasted_s: Floats, longest_s: float) -> Floats:
    """Return how long after the end of an outage of `lasted_s` a client is back."""
    lasted_s = np.minimum(lasted_s, _FORGOTTEN * longest_s)
    first_s, until_s = np.minimum(_CLIENT_FIRST_S, longest_s)
    shortest_s = min(_CLIENT_SHORTEST_S, longest_s / 2)
    tried_s = rng.uniform(first_s, until_s, len(lasted_s))
    while longest_s and (away := tried_s < lasted_s).any():
        tried_s = np.where(away, tried_s + rng.uniform(shortest_s, longest_s, len(lasted_s)), tried_s)
    return np.maximum(0.0, tried_s - lasted_s)


def agents_back_s(draw: Draw, lasted_s: Floats, fails_s: Floats, every_s: float, longest_s: float) -> Floats:
    """Return how long after the end of an outage an agent has told of a broker that failed in it.

    `fails_s`: when, since the outage began; `every_s`: between two heartbeats of the agent, with the first of
    which it begins to try in vain; `longest_s`: its longest pause.
    """
    skipped_s = np.maximum(0.0, lasted_s - _FORGOTTEN * max(longest_s, every_s))
    lasted_s, fails_s = lasted_s - skipped_s, np.maximum(0.0, fails_s - skipped_s)
    tried_s, failures, knows = draw(0) * every_s, np.zeros(len(lasted_s), dtype=np.int64), fails_s <= 0
    step = 0
    while longest_s and (trying := ~knows | (tried_s < lasted_s)).any():
        step += 1
        # Whatever it waits for, it tries at once to tell of the broker.
        now_knows = trying & ~knows & (tried_s >= fails_s)
        tried_s = np.where(now_knows, fails_s, tried_s)
        knows |= now_knows
        fails = trying & (tried_s < lasted_s)
        failures += fails
        pause_s = np.minimum(longest_s, _AGENT_FIRST_S * 2.0 ** np.clip(failures - 1, 0, _MOST_DOUBLINGS))
        tried_s = np.where(fails, tried_s + pause_s * (0.5 + draw(step) / 2), tried_s)
    return np.maximum(0.0, tried_s - lasted_s)


def most_back_s(rng: np.random.Generator, others: int, longest_s: float, pairs: int) -> Floats:
    """Return when no more than half of a client's brokers are missing after an outage that ended all leases.

    One of them is gone, and `others` are not. These come back after pauses of half to all of the longest one,
    in which the outage ends at a random moment.
    """
    needed = others + 1 - (others + 1) // 2
    if needed > others:
        return np.full(pairs, np.inf)
    share = rng.beta(needed, others - needed + 1, pairs)
    late = 1 - np.sqrt(0.75 * (1 - share))
    return np.where(share < 2 / 3, 0.75 * share, late) * longest_s + rng.random(pairs) * _AGENT_JITTER_S
