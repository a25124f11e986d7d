"""A random walk through faults: whatever dies, hangs and comes back in any order, the rules hold."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from tests.faults.plant import Plant
from tests.faults.victims import Process

_REST_S: Final = 0.7
_MOST_TOPICS: Final = 4
_STAYS_DEAD: Final = 0.25
"""How often something is left dead when the faults end."""


class Walk:
    """Breaks a plant with two agents; what it did is in `steps`, for whoever has to understand a failure."""

    def __init__(self, plant: Plant, seed: int) -> None:
        self.steps = [f"seed {seed}"]
        self._plant = plant
        self._rng = random.Random(seed)
        self._agents = [plant.agent(name) for name in ("first", "second")]
        self._victims: list[Process] = [*self._agents, plant.broker, plant.server]

    def go(self, rounds: int, steps: int) -> None:
        """Break things for so many steps, let all faults end, and check; and that again and again.

        Raises AssertionError with all steps so far.
        """
        try:
            self._plant.until_served()
            for _ in range(rounds):
                for _ in range(steps):
                    self._break_something()
                self._end_faults()
                self._check()
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter: {', '.join(self.steps)}") from error

    def _break_something(self) -> None:
        actions = [action for victim in self._victims for action in _possible(victim)]
        name, action = self._rng.choice([*actions, ("rewrite topics", self._rewrite_topics)])
        self._do(name, action)
        # Nothing is awaited: how long a fault lasts before the next is part of the order that is drawn.
        time.sleep(self._rng.uniform(0, _REST_S))

    def _do(self, name: str, action: Callable[[], None]) -> None:
        self.steps.append(name)
        action()

    def _rewrite_topics(self) -> None:
        count = self._rng.randint(0, _MOST_TOPICS)
        self._plant.rewrite_topics(*(f"topic-{self._rng.randrange(100)}" for _ in range(count)))

    def _end_faults(self) -> None:
        """Let what is paused go on; store, broker and agents run, or one of the latter stays dead."""
        for victim in self._victims:
            if victim.paused:
                self._do(f"resume {victim.name}", victim.resume)
        dead = [victim for victim in self._victims if not victim.running]
        for victim in sorted(dead, key=lambda victim: victim is not self._plant.server):
            if victim is self._plant.server or self._rng.random() >= _STAYS_DEAD:
                self._do(f"start {victim.name}", victim.start)

    def _check(self) -> None:
        """Check that the registry tells the truth before long, and that it is nobody's turn any more."""
        if self._plant.broker.running and any(agent.running for agent in self._agents):
            self.steps.append("is served")
            self._plant.until_served()
            self._plant.until_settled()
        else:
            self.steps.append("is gone")
            self._plant.until_gone()
        self._plant.until_all_say_so()
        self._plant.check()


def _possible(victim: Process) -> list[tuple[str, Callable[[], None]]]:
    """Return what can happen to a process, by name."""
    names = ["resume" if victim.paused else "pause", "kill"] if victim.running else ["start"]
    return [(f"{name} {victim.name}", getattr(victim, name)) for name in names]
