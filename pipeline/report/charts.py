"""The charts of a page: what Spark sums up for them, and where each bar lies; HTML and CSS draw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, Final, NamedTuple

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from ...registry.model import MASTER_ID
from ...registry.wording import counted
from ..answers.frames import each_of
from ..answers.uptime import failure
from .words import exact_time, length_text, time_text

_REPLICA: Final = ("registry", "broker", "broker_id")
_LANES: Final = 30
"""So many replicas are drawn, those that were away longest first."""

_BARS: Final = 60
"""So many times away of a replica are drawn, the longest first; and so many columns."""

_MARKS: Final = 200
_ALL: Final = 100.0
_MINUTE_MS: Final = 60_000
_TICKS: Final = 5
_STEPS_MS: Final = tuple(
    1_000 * seconds
    for seconds in (
        *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200),
        *(86_400 * days for days in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365)),
    )
)
_DAY_MS: Final = 86_400_000
_LAST_MS: Final = 2**53


class Span(NamedTuple):
    """The time that a page is about, ms since 1970."""

    begin_ms: int
    end_ms: int

    def place(self, at_ms: float) -> float:
        """Return where a time lies, in per cent from the begin to the end."""
        length_ms = max(self.end_ms - self.begin_ms, 1)
        return _ALL * min(max((at_ms - self.begin_ms) / length_ms, 0.0), 1.0)


class Bar(NamedTuple):
    """A bar of a lane, or a column: from where on and how long, in per cent; `tip` tells its figures."""

    at: float
    length: float
    kind: str
    tip: str


class Lane(NamedTuple):
    """A line of a chart."""

    name: str
    bars: Sequence[Bar]


class Tick(NamedTuple):
    """A place on an axis."""

    at: float
    text: str


class Chart(NamedTuple):
    """Lanes with bars, one below the other; or columns, whose highest one is `top`."""

    caption: str
    lanes: Sequence[Lane] = ()
    columns: Sequence[Bar] = ()
    top: str = ""
    ticks: Sequence[Tick] = ()
    legend: Mapping[str, str] | None = None
    """What kinds of bars mean; only of those that are there."""


_KINDS: Final = {
    "alive": "alive",
    "failed": "away: nobody asked for its end",
    "stopped": "away: stopped or drained",
    "wiped": "alive, without write permission",
    "unknown": "not known, or forgotten",
    "mark": "done on purpose",
}


def timeline(
    sessions: DataFrame, ends: DataFrame, wiped: DataFrame, faults: DataFrame | None, span: Span
) -> Chart | None:
    """Return when replicas were alive or wiped, those away longest, by BROKER_SESSIONS, DETECTION, FAULTS."""
    mute = wiped.withColumns({"broker_id": F.lit(MASTER_ID), "kind": F.col("cause"), "how": F.col("cause")})
    length_ms = F.col("to_ms") - F.col("from_ms")
    away_ms = F.when(F.col("kind").isin("failed", "stopped"), length_ms)
    bar = F.struct((-length_ms).alias("order"), "from_ms", "to_ms", "kind", "how")
    longest = F.sort_array(F.collect_list(F.when(length_ms > 0, bar)))
    replicas = (
        _times(sessions, ends)
        .unionByName(mute.drop("cause", "over"), allowMissingColumns=True)
        .groupBy(*_REPLICA)
        .agg(
            F.sum(away_ms).alias("away_ms"),
            F.min("begin_ms").alias("since_ms"),
            F.slice(longest, 1, _BARS).alias("bars"),
        )
        .where("since_ms IS NOT NULL")
        .orderBy(F.desc_nulls_last("away_ms"), *_REPLICA)
        .limit(_LANES)
        .collect()
    )
    if not replicas:
        return None
    marks = _marks(faults, span)
    several = len({row["registry"] for row in replicas}) > 1
    lanes = []
    of_store = [one for (_, broker, _), bars in marks.items() if not broker for one in bars]
    if of_store:
        lanes.append(Lane("the store", of_store))
    for row in replicas:
        name = f"{row['broker']}:{row['broker_id']}"
        signs = marks.get(tuple(row[:3]), [])
        at = span.place(row["since_ms"])
        tip = f"alive, but for what is drawn otherwise; known since {time_text(row['since_ms'])}"
        drawn = [Bar(at, _ALL - at, "alive", tip), *_away(row["bars"], span), *signs]
        lanes.append(Lane(f"{row['registry']} {name}" if several else name, drawn))
    return Chart(
        caption=f"{counted(len(replicas), 'replica')} over time, those that were away longest",
        lanes=lanes,
        ticks=time_ticks(span),
        legend=_legend(_KINDS, lanes),
    )


def _legend(kinds: Mapping[str, str], lanes: Iterable[Lane]) -> Mapping[str, str]:
    """Return what the kinds mean that are there."""
    seen = {bar.kind for lane in lanes for bar in lane.bars}
    return {kind: words for kind, words in kinds.items() if kind in seen}


def _times(sessions: DataFrame, ends: DataFrame) -> DataFrame:
    """Return the times in which replicas were not alive, or nobody knows: from_ms, to_ms, kind, how."""
    unwanted = ends.select(*_REPLICA, "end_id", F.lit(col=True).alias("is_unwanted"))
    in_order = Window.partitionBy(*_REPLICA).orderBy("begin_ms", "end_ms")
    is_away = F.col("ended").isin("expired", "gone", "clean", "earlier")
    failed = F.coalesce("is_unwanted", F.lit(col=False)) | failure()
    back_ms = F.when(is_away, F.col("away_until_ms")).otherwise(F.col("end_ms"))
    how = F.concat_ws(": ", "ended", F.nullif("reason", "ended"))
    is_over = F.col("ended") != "open"
    until_ms = F.when(is_over, F.coalesce("next_ms", F.lit(_LAST_MS))).otherwise(F.col("back_ms"))
    kind = F.when(failed, "failed").otherwise("stopped")
    away = {"kind": kind, "from_ms": F.col("end_ms"), "to_ms": F.col("back_ms"), "how": how}
    unknown = {"kind": F.lit("unknown"), "from_ms": F.col("back_ms"), "to_ms": until_ms, "how": how}
    return (
        sessions.join(unwanted, [*_REPLICA, "end_id"], "left")
        .withColumn("next_ms", F.lead("begin_ms").over(in_order))
        .withColumn("back_ms", back_ms)
        .select(*_REPLICA, "begin_ms", each_of(away, unknown))
    )


def _away(rows: Iterable[Row], span: Span) -> Iterator[Bar]:
    for row in rows:
        from_ms, to_ms = max(row["from_ms"], span.begin_ms), min(row["to_ms"], span.end_ms)
        if to_ms > from_ms:
            at = span.place(from_ms)
            what = {"unknown": "not known", "wiped": "without write permission"}.get(row["kind"], "away")
            tip = f"{what} for {length_text(to_ms - from_ms)} from {exact_time(from_ms)} on ({row['how']})"
            yield Bar(at, span.place(to_ms) - at, row["kind"], tip)


def _marks(faults: DataFrame | None, span: Span) -> Mapping[tuple[Any, ...], list[Bar]]:
    """Return what was done on purpose, by the master to which it was done."""
    found: dict[tuple[Any, ...], list[Bar]] = {}
    if faults is not None:
        for row in faults.orderBy("at_ms").limit(_MARKS).collect():
            tip = f"{row['what']} on purpose at {exact_time(row['at_ms'])}"
            marks = found.setdefault((row["registry"] or "", row["broker"] or "", MASTER_ID), [])
            marks.append(Bar(span.place(row["at_ms"]), 0.0, "mark", tip))
    return found


def lost_time(outages: DataFrame, span: Span) -> Chart | None:
    """Return the time that topics lost, of TOPIC_OUTAGES, in equal parts of the observation."""
    width_ms = _width_ms(span)
    parts = F.explode(F.sequence(_part("from_ms", span, width_ms), _part("to_ms", span, width_ms)))
    begin_ms = F.col("part") * width_ms + span.begin_ms
    in_part_ms = F.least("to_ms", begin_ms + width_ms) - F.greatest("from_ms", begin_ms)
    rows = (
        outages.where(~F.col("system"))
        .select("from_ms", "to_ms", parts.alias("part"))
        .groupBy("part")
        .agg(F.sum(F.greatest(in_part_ms, F.lit(0))).alias("lost_ms"), F.count("*").alias("count"))
        .collect()
    )
    found = {
        part: (lost_ms, f"{length_text(lost_ms)} lost by {counted(count, 'outage')}")
        for part, lost_ms, count in rows
    }
    return _columns(found, span, width_ms, "failed", "Time that topics lost", length_text)


def changes_over_time(changes: DataFrame, span: Span) -> Chart | None:
    """Return how many changes there were in equal parts of the observation."""
    width_ms = _width_ms(span)
    rows = (
        changes.groupBy(_part("ms", span, width_ms).alias("part")).agg(F.count("*").alias("count")).collect()
    )
    found = {row["part"]: (row["count"], counted(row["count"], "change")) for row in rows}
    return _columns(found, span, width_ms, "count", "Changes", lambda count: f"{round(count):,}")


def _width_ms(span: Span) -> int:
    return max(ceil((span.end_ms - span.begin_ms + 1) / _BARS), 1)


def _part(ms: str, span: Span, width_ms: int) -> Expression:
    """Return in which part of the observation a time lies."""
    part = F.floor((F.col(ms) - span.begin_ms) / width_ms)
    # No int: times of more than 25 days would be more than it holds.
    return F.least(F.greatest(part, F.lit(0)), F.lit(_BARS - 1)).cast("bigint")


def _columns(
    found: Mapping[int, tuple[float, str]], span: Span, width_ms: int, kind: str, what: str, text: Any
) -> Chart | None:
    most = max((value for value, _ in found.values()), default=0)
    if not most:
        return None
    columns = []
    for number, (value, tip) in sorted(found.items()):
        begin = time_text(span.begin_ms + number * width_ms)
        columns.append(Bar(_ALL * number / _BARS, _ALL * value / most, kind, f"{begin}: {tip}"))
    caption = f"{what}, in parts of {length_text(width_ms)}"
    whole = Span(span.begin_ms, span.begin_ms + _BARS * width_ms)
    return Chart(caption=caption, columns=columns, top=text(most), ticks=time_ticks(whole))


_STAGES: Final = {
    "told": ("the registry told it", "measured"),
    "first client avoided": ("the first client avoided it", "measured"),
    "client avoided": ("a client avoided it", "measured"),
    "client knew": ("a client had read of it", "measured"),
    "rocketmq closed": ("RocketMQ's client, connection closed", "computed"),
    "rocketmq told": ("RocketMQ's name server, silent", "computed"),
    "rocketmq silent": ("RocketMQ's client, silent", "computed"),
}
_LEAST_MS: Final = 1.0
_RANGES: Final = {
    "measured": "half of them to the last one, measured",
    "computed": "computed of RocketMQ's timers",
}


def ranges(summary: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Return how soon ends were known, from the rows of DETECTION_SUMMARY: from half of them to the last."""
    told = [row for row in summary if row["ends"] and row["stage"] in _STAGES]
    if not told:
        return None
    told.sort(key=lambda row: (row["registry"], [*_STAGES].index(row["stage"])))
    least = floor(log10(max(min(row["p50_ms"] for row in told), _LEAST_MS)))
    most = max(ceil(log10(max(10.0, *(row["max_ms"] for row in told)))), least + 1)

    def place(ms: float) -> float:
        return _ALL * min(max((log10(max(ms, _LEAST_MS)) - least) / (most - least), 0.0), 1.0)

    several = len({row["registry"] for row in told}) > 1
    lanes = []
    for row in told:
        words, kind = _STAGES[row["stage"]]
        figures = {"half": row["p50_ms"], "95 %": row["p95_ms"], "99 %": row["p99_ms"], "all": row["max_ms"]}
        tip = ", ".join(f"{name} within {length_text(ms)}" for name, ms in figures.items())
        at = place(row["p50_ms"])
        bar = Bar(at, place(row["max_ms"]) - at, kind, f"{tip}; {row['ends']:,} ends")
        lanes.append(Lane(f"{row['registry']}: {words}" if several else words, [bar]))
    return Chart(
        caption="How soon the ends of brokers were known",
        lanes=lanes,
        ticks=[Tick(place(10.0**power), length_text(10.0**power)) for power in range(least, most + 1)],
        legend=_legend(_RANGES, lanes),
    )


def time_ticks(span: Span) -> list[Tick]:
    """Return few round times of a span: days, or times of day; where they are of two days, with it."""
    length_ms = max(span.end_ms - span.begin_ms, 1)
    step_ms = next((step for step in _STEPS_MS if length_ms / step <= _TICKS), _STEPS_MS[-1])
    first_ms = ceil(span.begin_ms / step_ms) * step_ms
    several, ticks = first_ms // _DAY_MS < span.end_ms // _DAY_MS, []
    for at_ms in range(first_ms, span.end_ms + 1, step_ms):
        day, _, time = time_text(at_ms).partition(" ")
        hour = time if step_ms < _MINUTE_MS else time[:5]
        is_new = several and (at_ms == first_ms or at_ms % _DAY_MS < step_ms)
        text = day[5:] if step_ms >= _DAY_MS else f"{day[5:]} {hour}" if is_new else hour
        ticks.append(Tick(span.place(at_ms), text))
    return ticks
