"""Times as people write them, in Berlin."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from sharedroutes.cli.times import parse_time

NOW = datetime.fromisoformat("2026-11-23T09:30:00+01:00")


@pytest.fixture(autouse=True)
def in_berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "2026-11-23T09:30:00+01:00"),
        ("2h", "2026-11-23T07:30:00+01:00"),
        ("15m ago", "2026-11-23T09:15:00+01:00"),
        ("15 minutes ago", "2026-11-23T09:15:00+01:00"),
        ("1h30m", "2026-11-23T08:00:00+01:00"),
        ("1 hour, 30 min ago", "2026-11-23T08:00:00+01:00"),
        ("1.5h", "2026-11-23T08:00:00+01:00"),
        ("90s", "2026-11-23T09:28:30+01:00"),
        ("3 days", "2026-11-20T09:30:00+01:00"),
        ("2w ago", "2026-11-09T09:30:00+01:00"),
        ("9:05", "2026-11-23T09:05:00+01:00"),
        ("09:05:30.250", "2026-11-23T09:05:30.250+01:00"),
        ("14:05", "2026-11-22T14:05:00+01:00"),  # today it has not come yet
        ("noon", "2026-11-22T12:00:00+01:00"),
        ("midnight", "2026-11-23T00:00:00+01:00"),
        ("today", "2026-11-23T00:00:00+01:00"),
        ("today 8:00", "2026-11-23T08:00:00+01:00"),
        ("yesterday", "2026-11-22T00:00:00+01:00"),
        ("Yesterday Noon", "2026-11-22T12:00:00+01:00"),
        ("yesterday at 23:59", "2026-11-22T23:59:00+01:00"),
        ("2026-11-20", "2026-11-20T00:00:00+01:00"),
        ("2026-11-20 noon", "2026-11-20T12:00:00+01:00"),
        ("2026-11-20 14:05", "2026-11-20T14:05:00+01:00"),
        ("2026-11-20T14:05:00", "2026-11-20T14:05:00+01:00"),
        ("2026-07-20T14:05:00", "2026-07-20T14:05:00+02:00"),  # in summer
        ("2026-11-20T14:05Z", "2026-11-20T14:05:00+00:00"),
        ("2026-11-20t14:05:30.5z", "2026-11-20T14:05:30.500+00:00"),
        ("2026-11-20 14:05-08:00", "2026-11-20T14:05:00-08:00"),
        ("1795171500000", "2026-11-20T11:45:00+01:00"),
        ("1795171500000-7", "2026-11-20T11:45:00+01:00"),
    ],
)
def test_a_time_is_what_people_mean(text: str, meant: str) -> None:
    assert parse_time(text, NOW) == datetime.fromisoformat(meant)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no time: write 2h"),
        ("tomorrow", "'tomorrow' is no time: write 2h"),
        ("2x", "'2x' is no time: write 2h"),
        ("-2h", "'-2h' is no time"),
        ("25:05", "hour must be in 0..23"),
        ("yesterday 14:65", "minute must be in 0..59"),
        ("2026-13-01", "month must be in 1..12"),
        ("2026-02-30", "day"),
        ("1795170300", "is no time"),
    ],
)
def test_what_is_no_time_is_named_with_what_would_be_one(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="is no time") as caught:
        parse_time(text, NOW)
    assert why in str(caught.value)
    assert "yesterday noon" in str(caught.value)


def test_a_time_of_day_is_the_last_one_in_whatever_zone_the_clock_is_told() -> None:
    for hour in range(24):
        now = datetime(2026, 11, 23, hour, 30, tzinfo=UTC)
        found = parse_time("14:05", now)
        assert now - timedelta(days=1) < found <= now
        assert (found.astimezone().hour, found.astimezone().minute) == (14, 5)


def test_a_length_of_time_counts_hours_where_the_clock_was_set_back() -> None:
    now = datetime.fromisoformat("2026-10-25T04:00:00+01:00")  # an hour after 3:00 was 2:00 again
    assert now - parse_time("3h", now) == timedelta(hours=3)
