"""Words for people that several rooms need."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def some(
    names: Sequence[str], most: int | None, *, between: str = ", ", cut: Callable[[str], str] = str
) -> str:
    """Return the first of some names, and how many more there are; None = all of them.

    `cut` shortens the names together, so that the number is seen however long they are.
    """
    first = names[:most]
    more = len(names) - len(first)
    return cut(between.join(first)) + (f" and {more:,} more" if more else "")


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun, by default in the plural that most have."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
