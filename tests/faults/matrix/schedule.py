"""Which faults a run has, and in which order: drawn from a seed, so that the same seed has the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.faults.matrix.kinds.kind import Kind

_TOGETHER: float = 0.2
"""How often a second fault begins while the first one lasts."""


def rounds(seed: int, deployment: str, kinds: Sequence[Kind]) -> Iterator[tuple[random.Random, list[Kind]]]:
    """Yield for ever what breaks next, and the generator that draws its details: each kind comes in turn."""
    number, order = 0, random.Random(f"{seed} {deployment}")
    while True:
        turn = order.sample(kinds, len(kinds))
        for kind in turn:
            number += 1
            rng = random.Random(f"{seed} {deployment} {number}")
            others = [other for other in kinds if not other.areas & kind.areas]
            together = [rng.choice(others)] if others and rng.random() < _TOGETHER else []
            yield rng, [kind, *together]
