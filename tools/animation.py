"""An animated SVG of what a terminal has shown: a row is drawn once for each text that it had.

CSS alone moves it, so it plays where a picture may neither run scripts nor load anything, as on GitHub.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from pyte.screens import Char, Screen

T = TypeVar("T")
Row: TypeAlias = tuple[Char, ...]
Span: TypeAlias = tuple[float, float]

_WIDTH: Final = 8.4
_HEIGHT: Final = 18
_BASE: Final = 13
_PAD: Final = 12
_BAR: Final = 30
_END_S: Final = 2.0
"""The last frame stays for so long."""

_HEX: Final = re.compile("[0-9a-f]{6}")
_INK: Final = "#d5d8de"
_PAPER: Final = "#14171c"
_NAMED: Final = {
    "black": "#14171c",
    "red": "#ff6b6b",
    "green": "#5ed28a",
    "brown": "#e8c268",
    "blue": "#6aa5f8",
    "magenta": "#d19af0",
    "cyan": "#63cfd6",
    "white": "#d5d8de",
}


@dataclass(frozen=True)
class Frame:
    """What a terminal showed from some moment on, with a caption."""

    at_s: float
    rows: tuple[Row, ...]
    caption: str

    @classmethod
    def of(cls, screen: Screen, at_s: float, caption: str) -> Frame:
        """Take what a screen shows now."""
        columns = range(screen.columns)
        rows = (tuple(screen.buffer[line][column] for column in columns) for line in range(screen.lines))
        return cls(at_s, tuple(rows), caption)

    def differs(self, other: Frame) -> bool:
        """Whether it shows something else."""
        return (self.rows, self.caption) != (other.rows, other.caption)


def animated(frames: Sequence[Frame], title: str, meaning: str) -> str:
    """Return the frames as one SVG, which plays again and again."""
    end_s = frames[-1].at_s + _END_S
    columns, lines = len(frames[0].rows[0]), len(frames[0].rows)
    width, height = columns * _WIDTH + 2 * _PAD, lines * _HEIGHT + 2 * _BAR + _PAD
    moves = _Moves(end_s)
    body = [part for line in range(lines) for part in _row(frames, line, moves, end_s)]
    body += _captions(frames, moves, end_s, height - _PAD)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(meaning)}</desc>\n<style>\n{_STYLE}{moves.css()}</style>\n"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{_PAPER}"/>\n'
        f'<text x="{width / 2:g}" y="20" class="t">{escape(title)}</text>\n' + "\n".join(body) + "\n</svg>\n"
    )


_STYLE: Final = f"""text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}
text{{fill:{_INK};white-space:pre}}rect{{shape-rendering:crispEdges}}
.b{{font-weight:bold}}.t{{text-anchor:middle;opacity:.6}}.c{{fill:#e8c268}}
@media(prefers-reduced-motion:reduce){{.m{{animation:none!important}}}}
"""


class _Moves:
    """The rules of CSS that show things for a while, each once."""

    def __init__(self, end_s: float) -> None:
        self._end_s = end_s
        self._numbers: dict[tuple[Span, ...], int] = {}

    def of(self, spans: Sequence[Span]) -> str:
        """Return the class of what is to be seen at these times; empty = always."""
        if list(spans) == [(0.0, self._end_s)]:
            return ""
        number = self._numbers.setdefault(tuple(spans), len(self._numbers))
        return f' class="m k{number}"'

    def css(self) -> str:
        """Return the rules."""
        return "".join(self._rule(number, spans) for spans, number in self._numbers.items())

    def _rule(self, number: int, spans: Sequence[Span]) -> str:
        steps = {0.0: "hidden"}
        for begin_s, end_s in spans:
            steps |= {begin_s: "visible", end_s: "hidden"}
        keys = "".join(f"{at_s / self._end_s:.2%}{{visibility:{what}}}" for at_s, what in steps.items())
        still = "visible" if spans[-1][1] == self._end_s else "hidden"
        move = f"animation:k{number} {self._end_s:.2f}s step-end infinite"
        return f"@keyframes k{number}{{{keys}}}\n.k{number}{{visibility:{still};{move}}}\n"


def _spans(values: Sequence[tuple[float, T]], end_s: float) -> dict[T, list[Span]]:
    """Return when each value was there, from when each began."""
    runs = [(value, next(same)[0]) for value, same in groupby(values, key=itemgetter(1))]
    ends_s = [began_s for _, began_s in runs[1:]] + [end_s]
    found: dict[T, list[Span]] = defaultdict(list)
    for (value, began_s), until_s in zip(runs, ends_s, strict=True):
        found[value].append((began_s, until_s))
    return found


def _row(frames: Sequence[Frame], line: int, moves: _Moves, end_s: float) -> Iterator[str]:
    top = _BAR + line * _HEIGHT
    for row, spans in _spans([(_began_s(frames, one), one.rows[line]) for one in frames], end_s).items():
        drawn = "".join(_drawn(row, top))
        if drawn:
            yield f"<g{moves.of(spans)}>{drawn}</g>"


def _captions(frames: Sequence[Frame], moves: _Moves, end_s: float, y: float) -> Iterator[str]:
    for caption, spans in _spans([(_began_s(frames, one), one.caption) for one in frames], end_s).items():
        yield f'<g{moves.of(spans)}><text x="{_PAD}" y="{y:g}" class="c">{escape(caption)}</text></g>'


def _began_s(frames: Sequence[Frame], frame: Frame) -> float:
    return 0.0 if frame is frames[0] else round(frame.at_s, 2)


def _drawn(row: Row, top: int) -> Iterator[str]:
    """Yield the parts of a row, each of one style."""
    column = 0
    for (ink, paper, is_bold), same in groupby(row, key=_style):
        text = "".join(char.data for char in same)
        x, length = _PAD + column * _WIDTH, len(text) * _WIDTH
        column += len(text)
        if paper != _PAPER:
            yield f'<rect x="{x:g}" y="{top}" width="{length:g}" height="{_HEIGHT}" fill="{paper}"/>'
        shown = text.rstrip()
        if shown:
            x += (len(shown) - len(shown.lstrip())) * _WIDTH
            shown = shown.lstrip()
            colour = "" if ink == _INK else f' style="fill:{ink}"'
            bold = ' class="b"' if is_bold else ""
            yield (
                f'<text x="{x:g}" y="{top + _BASE}" textLength="{len(shown) * _WIDTH:g}"{bold}{colour}>'
                f"{escape(shown, quote=False)}</text>"
            )


def _style(char: Char) -> tuple[str, str, bool]:
    ink, paper = _colour(char.fg, _INK), _colour(char.bg, _PAPER)
    return (paper, ink, char.bold) if char.reverse else (ink, paper, char.bold)


def _colour(name: str, usual: str) -> str:
    if name == "default":
        return usual
    return _NAMED.get(name) or (f"#{name}" if _HEX.fullmatch(name) else usual)
