"""Turns matplotlib figures into pictures that stand in a page by themselves."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

__all__ = ["COLOURS", "GREY", "Picture", "drawn", "to_date", "with_time_axis"]

COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442")
"""Told apart by people who do not see all colours (Okabe and Ito)."""

GREY: Final = "#999999"

_SETTINGS: Final[Any] = {
    "svg.hashsalt": "sharedroutes",  # the same data gives the same file
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Picture:
    """A figure of matplotlib with one field of axes; `url` is the drawing as a data URL."""

    def __init__(self, width_in: float, height_in: float) -> None:
        self._figure = Figure(figsize=(width_in, height_in), layout="constrained")
        self.axes: Axes = self._figure.add_subplot()

    @property
    def figure(self) -> Figure:
        """The figure, for what its axes cannot do."""
        return self._figure

    @property
    def url(self) -> str:
        """The picture as SVG, in a URL that holds all of it."""
        content = BytesIO()
        with mpl.rc_context(_SETTINGS):
            self._figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
        return "data:image/svg+xml;base64," + base64.b64encode(content.getvalue()).decode("ascii")


@contextmanager
def drawn(width_in: float, height_in: float) -> Iterator[Picture]:
    """Give an empty picture to draw into, with the look that all of them have."""
    with mpl.rc_context(_SETTINGS):
        yield Picture(width_in, height_in)


def to_date(at_ms: float) -> float:
    """Return a time in ms since 1970 as matplotlib counts days."""
    return float(date2num(datetime.fromtimestamp(at_ms / 1000, UTC)))


def with_time_axis(axes: Axes, begin_ms: int, end_ms: int) -> None:
    """Let the x axis show the time from begin to end, in UTC."""
    locator = AutoDateLocator(tz=UTC, minticks=4, maxticks=10)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.set_xlim(to_date(begin_ms), to_date(max(end_ms, begin_ms + 1)))
    axes.set_xlabel("UTC, the store's clock")
