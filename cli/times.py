"""Times as people write them: `2h`, `15m ago`, `14:05`, `yesterday noon`, ISO 8601 with or without a zone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

import click

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_UNIT: Final = r"(?:s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?|rs?)?|d(?:ays?)?|w(?:eeks?)?)"
_LENGTH: Final = rf"(\d+(?:\.\d+)?)\s*({_UNIT})"
_AGO: Final = re.compile(rf"(?:{_LENGTH}[\s,]*)+(?:ago)?")
_OF_DAY: Final = {"noon": time(12), "midnight": time(0)}
_CLOCK: Final = re.compile(r"[0-9]{1,2}:")
_STREAM_ID: Final = re.compile(r"([0-9]{13})(?:-[0-9]+)?")
_FORMS: Final = "write 2h, 15m ago, 14:05, yesterday noon, 2026-11-23 or 2026-11-23T14:05:30+01:00"


def parse_time(text: str, now: datetime) -> datetime:
    """Return the moment that is meant; raise ValueError, which names the text and says why.

    A time of day alone is the last such time; a day alone is its beginning. What names no zone is local. The
    ids of changes, and ms since 1970, are times, too.
    """
    words = " ".join(text.lower().replace(" at ", " ").split())
    if words == "now":
        return now
    if _AGO.fullmatch(words):
        lengths = re.findall(_LENGTH, words)
        return now - timedelta(seconds=sum(float(count) * _UNITS[unit[0]] for count, unit in lengths))
    if found := _STREAM_ID.fullmatch(words):
        return datetime.fromtimestamp(int(found[1]) / 1_000, UTC)
    try:
        return _by_calendar(words, now)
    except ValueError as error:
        why = "" if "Invalid isoformat" in str(error) else f" ({error})"
        raise ValueError(f"{text!r} is no time{why}: {_FORMS}") from None


def _by_calendar(words: str, now: datetime) -> datetime:
    """Return the moment that a day, a time of day, or both name."""
    first, _, rest = words.partition(" ")
    today = now.astimezone().date()
    days = {"today": today, "yesterday": today - timedelta(days=1)}
    if first in days:
        return _local(days[first], _time_of_day(rest or "midnight"))
    if first in _OF_DAY or _CLOCK.match(first):
        found = _local(today, _time_of_day(words))
        return found if found <= now else _local(days["yesterday"], _time_of_day(words))
    if rest in _OF_DAY:
        return _local(date.fromisoformat(first), _OF_DAY[rest])
    return datetime.fromisoformat(words.upper()).astimezone()


def _time_of_day(word: str) -> time:
    """Return what `noon` or `14:05` means; raise ValueError."""
    padded = f"0{word}" if word[1:2] == ":" else word
    return _OF_DAY[word] if word in _OF_DAY else time.fromisoformat(padded)


def _local(day: date, of_day: time) -> datetime:
    moment = datetime.combine(day, of_day)
    return moment.astimezone()  # what names no zone is taken for local


class Moment(NamedTuple):
    """A time that was written, before anybody knows what time it is."""

    text: str
    option: str

    def ms(self, now_ms: int) -> int:
        """Return ms since 1970; raise BadParameter for the future."""
        now = datetime.fromtimestamp(now_ms / 1_000, UTC)
        found = parse_time(self.text, now)
        if found > now:
            raise click.BadParameter(f"{self.text!r} is in the future", param_hint=self.option)
        return round(found.timestamp() * 1_000)


class TimeType(click.ParamType[Moment]):
    """An option that takes a time as people write it."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        """Return the moment; fails for what is no time."""
        if isinstance(value, Moment):
            return value
        try:
            parse_time(value, datetime.now(UTC))
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)
        return Moment(value, "" if param is None else param.get_error_hint(ctx))


TIME: Final = TimeType()
