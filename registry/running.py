"""What the parts of a store need of it: to run a plan."""

from __future__ import annotations

from typing import Protocol, TypeVar

from .plans import Plan

T = TypeVar("T")


class Run(Protocol):
    """Runs a plan on a blocking client."""

    def __call__(self, plan: Plan[T]) -> T:
        """Run the plan; raises StoreUnavailable, StoreRefused and what the plan raises."""


class AsyncRun(Protocol):
    """Runs a plan on an asyncio client."""

    async def __call__(self, plan: Plan[T]) -> T:
        """Run the plan; raises StoreUnavailable, StoreRefused and what the plan raises."""
