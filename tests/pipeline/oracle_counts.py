"""What is counted in a small history: failures, flaps and hours; by loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final, TypeAlias

from tests.pipeline.oracle import Era, Session

Rows: TypeAlias = list[tuple[Any, ...]]

_HOUR_MS: Final = 3_600_000


def _is_failure(one: Session) -> bool:
    return one.ended in ("expired", "gone")


def _is_flap(one: Session, short_ms: int, return_ms: int) -> bool:
    is_seen = one.began == "up" and one.ended not in ("moved", "unknown", "open")
    too_short = is_seen and one.end_ms - one.begin_ms < short_ms
    away_ms = one.away_until_ms - one.end_ms
    return too_short or (one.returned and one.ended in ("clean", "gone", "expired") and away_ms < return_ms)


def reliability_of(sessions: list[Session], short_ms: int, return_ms: int) -> Rows:
    """Return broker, broker_id, seven counts, alive_ms, away_ms, and times in s: mtbf, mttr, longest away."""
    found = []
    for key in {(one.broker, one.broker_id) for one in sessions}:
        mine = [one for one in sessions if (one.broker, one.broker_id) == key]
        failed = [one for one in mine if _is_failure(one)]
        away = [0 if one.ended == "moved" else one.away_until_ms - one.end_ms for one in mine]
        back = [one.away_until_ms - one.end_ms for one in failed if one.returned]
        alive_ms = sum(one.end_ms - one.begin_ms for one in mine)
        how = Counter(one.ended for one in mine)
        stops, flaps = how["clean"], sum(_is_flap(one, short_ms, return_ms) for one in mine)
        found.append(
            (
                *key,
                *(len(mine), len(failed), stops, how["replaced"], how["fenced"], flaps),
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
