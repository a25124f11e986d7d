"""What is counted in a small history: days, failures, flaps, hours, storms, the use of topics; by loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from tests.pipeline.answering import Row
from tests.pipeline.oracle import Era, Life, Session

Rows: TypeAlias = list[tuple[Any, ...]]

_HOUR_MS: Final = 3_600_000


def days_of(sessions: Iterable[Session]) -> Rows:
    """Return broker, broker_id, day, alive_ms, away_ms, by counting each ms."""
    found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for one in sessions:
        for ms in range(one.begin_ms, one.end_ms):
            found[one.broker, one.broker_id, _day(ms)]["alive"] += 1
        if one.ended != "moved":
            for ms in range(one.end_ms, one.away_until_ms):
                found[one.broker, one.broker_id, _day(ms)]["away"] += 1
    return [(*key, times["alive"], times["away"]) for key, times in found.items()]


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


def _is_failure(one: Session) -> bool:
    return one.ended in ("expired", "gone")


def flaps_of(sessions: Iterable[Session], short_ms: int, return_ms: int) -> Rows:
    """Return broker, broker_id, begin_ms, end_ms, ended, away_ms, too_short, soon_back."""
    found = []
    for one in sessions:
        is_seen = one.began == "up" and one.ended in (
            "clean",
            "gone",
            "expired",
            "fenced",
            "replaced",
            "forgotten",
        )
        away_ms = one.away_until_ms - one.end_ms
        too_short = is_seen and one.end_ms - one.begin_ms < short_ms
        soon_back = one.returned and one.ended in ("clean", "gone", "expired") and away_ms < return_ms
        if too_short or soon_back:
            who = (one.broker, one.broker_id, one.begin_ms, one.end_ms, one.ended)
            found.append((*who, away_ms if one.returned else None, too_short, soon_back))
    return found


def reliability_of(sessions: list[Session], short_ms: int, return_ms: int) -> Rows:
    """Return broker, broker_id, seven counts, alive_ms, away_ms, and times in s: mtbf, mttr, longest away."""
    flapped = Counter(row[:2] for row in flaps_of(sessions, short_ms, return_ms))
    found = []
    for key in {(one.broker, one.broker_id) for one in sessions}:
        mine = [one for one in sessions if (one.broker, one.broker_id) == key]
        failed = [one for one in mine if _is_failure(one)]
        away = [0 if one.ended == "moved" else one.away_until_ms - one.end_ms for one in mine]
        back = [one.away_until_ms - one.end_ms for one in failed if one.returned]
        alive_ms = sum(one.end_ms - one.begin_ms for one in mine)
        how = Counter(one.ended for one in mine)
        stops = how["clean"]
        found.append(
            (
                *key,
                *(len(mine), len(failed), stops, how["replaced"], how["fenced"], flapped[key]),
                *(alive_ms, sum(away)),
                int(alive_ms / len(failed) + 0.5) if failed else None,
                int(sum(back) / len(back) + 0.5) if back else None,
                max(away),
            )
        )
    return found


def changes_of_hours(eras: list[Era]) -> Rows:
    """Return hour_ms, kind, broker, changes, added, changed, removed."""
    found: dict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in (row for era in eras for row in era.records):
        counts = found[row["ms"] // _HOUR_MS * _HOUR_MS, row["kind"], row["broker"]]
        counts[0] += 1
        for place, names in enumerate(("added", "changed", "removed"), 1):
            counts[place] += len(row.get(names, ()))
    return [(*key, *counts) for key, counts in found.items()]


def storms_of(records: list[Row], more_than: int, within_s: int) -> Rows:
    """Return begin_ms, end_ms, lasted_s, ups, tables, brokers, peak_per_s; `records` have `second`."""
    records = [row for row in records if row["kind"] in ("up", "topics")]
    counts = Counter(row["second"] for row in records)
    stormy: set[int] = set()
    for last in counts:
        window = range(last - within_s + 1, last + 1)
        if sum(counts[second] for second in window) > more_than:
            stormy.update(second for second in window if counts[second])
    return [_storm(seconds, records, counts) for seconds in _together(sorted(stormy), within_s)]


def _together(seconds: list[int], within_s: int) -> Iterator[list[int]]:
    now: list[int] = []
    for second in seconds:
        if now and second - now[-1] > within_s:
            yield now
            now = []
        now.append(second)
    if now:
        yield now


def _storm(seconds: list[int], records: list[Row], counts: Counter[int]) -> tuple[Any, ...]:
    mine = [row for row in records if row["second"] in seconds]
    kinds = Counter(row["kind"] for row in mine)
    begin, end = seconds[0], seconds[-1] + 1
    brokers = len({row["broker"] for row in mine})
    peak = max(counts[second] for second in seconds)
    return (begin * 1000, end * 1000, end - begin, kinds["up"], kinds["topics"], brokers, peak)


def used(
    lives: list[Life], samples: list[Row], sampled: tuple[int, int], slot_ms: int, quiet_ms: int
) -> Iterator[tuple[int | None, int | None, float | None, str | None]]:
    """Yield first_used_ms, last_used_ms, attempts, use of each life of one topic.

    `sampled` is from when to when there are samples of the registry, of whatever topic.
    """
    for place, life in enumerate(lives):
        from_ms = _border_ms(lives[place - 1], life, slot_ms) if place else -1
        to_ms = _border_ms(life, lives[place + 1], slot_ms) if place + 1 < len(lives) else 1 << 62
        mine = [row for row in samples if from_ms <= row["at_ms"] < to_ms]
        at_ms = [row["at_ms"] for row in mine]
        use = _use(life, max(at_ms, default=None), sampled, quiet_ms)
        attempts = sum(1 / row["share"] for row in mine) if mine else None
        yield min(at_ms, default=None), max(at_ms, default=None), attempts, use


def _border_ms(life: Life, after: Life, slot_ms: int) -> int:
    """Return where the samples of two lives part: a whole number of slots, nearest to the middle."""
    return int((life.last_ms + after.first_ms) / 2 / slot_ms + 0.5) * slot_ms


def _use(life: Life, last_ms: int | None, sampled: tuple[int, int], quiet_ms: int) -> str | None:
    first_sample_ms, quiet_from_ms = sampled[0], sampled[1] - quiet_ms
    if life.gone_ms is not None:
        return None
    if last_ms is not None:
        return "used" if last_ms >= quiet_from_ms else "abandoned"
    born_ms = life.created_ms or 0
    if max(born_ms, first_sample_ms) > quiet_from_ms:
        return None
    return "never used" if born_ms >= first_sample_ms else "abandoned"
