"""The page: what a reader has to know at a glance, charts and tables, as HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...registry.wording import counted
from ..answers import availability, churn, detection, incidents, latency, placement, uptime
from ..schemas import GAP
from .catalogue import PARTS, SHOWN, Part, Working
from .charts import Chart, Span, changes_over_time, lost_time, ranges, timeline
from .words import Cell, cell, exact_time, length_text, names_text, share_text, time_text
from .written import Found

_ROWS: Final = 20
_MOST: Final = 50
"""So many gaps are told."""

_LEAST_QUIET_MS: Final = 3_600_000
_LONG_QUIET_MS: Final = 24 * _LEAST_QUIET_MS

Findings = Mapping[str, Found]
"""What was written, by the names of answers."""

Said = tuple[str, str, str]
"""Value, note and level of a tile."""


class Overview(NamedTuple):
    """What a report is about, and what is missing from it; times in ms since 1970."""

    begin_ms: int
    end_ms: int
    newest_ms: int
    """When the last change came before the end."""

    registries: tuple[str, ...]
    out: int = 0
    """Topics that are still out at the end, but for RocketMQ's own."""

    gaps: tuple[tuple[str, int, str], ...] = ()
    """Registry, when, and why changes were lost."""

    quarantined: int = 0
    """Records that could not be read."""

    corrupt_samples: int = 0
    """Lines, rows and files that are no samples."""

    @property
    def span(self) -> Span:
        """The time that charts are about: up to where nothing has changed for as long as all before took."""
        quiet_ms = max(self.newest_ms - self.begin_ms, _LEAST_QUIET_MS)
        return Span(self.begin_ms, min(self.end_ms, self.newest_ms + quiet_ms))

    @property
    def period(self) -> str:
        """The time of it, in words."""
        which = "registry" if len(self.registries) == 1 else "registries"
        return (
            f"{time_text(self.begin_ms)} to {time_text(self.end_ms)} UTC by the clock of the store, "
            f"{length_text(self.end_ms - self.begin_ms)}, newest change {time_text(self.newest_ms)}; "
            f"{which} {', '.join(self.registries) or 'none'}"
        )


class Tile(NamedTuple):
    """One thing to know at a glance, and where there is more of it; `level` is good, warn, bad or empty."""

    name: str
    value: str
    note: str
    level: str
    anchor: str


class Grid(NamedTuple):
    """The first rows of an answer; `total` is how many there are."""

    name: str
    title: str
    meaning: str
    heads: Sequence[tuple[str, str, bool]]
    """What stands above a column, what it means, and whether its values are numbers."""

    rows: Sequence[Sequence[Cell]]
    total: int


class Section(NamedTuple):
    """A part of the page; its anchor is what links to it end in."""

    anchor: str
    title: str
    text: str
    chart: Chart | None = None
    grids: Sequence[Grid] = ()


class Page(NamedTuple):
    """All of it."""

    title: str
    period: str
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    warnings: Sequence[str] = ()


def render(page: Page) -> str:
    """Return the page as HTML."""
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(page=page)


def page_of(title: str, work: Working, found: Findings) -> Page:
    """Return the page of what was written."""
    overview = _overview(work, found)
    several = len(overview.registries) > 1
    sections = [
        Section(
            part.anchor,
            part.anchor.capitalize(),
            _text(part, work),
            _chart(part, overview.span, work, found),
            [
                grid(found[one.name], several=several)
                for one in part.answers
                if one.name in found and one.shown
            ],
        )
        for part in PARTS
        if any(one.name in found for one in part.answers)
    ]
    return Page(title, overview.period, list(tiles(overview, work, found)), sections, warnings(overview))


def _overview(work: Working, found: Findings) -> Overview:
    history = work.history
    spans = work.seen.span.collect()
    end_ms = max((row["until_ms"] for row in spans), default=0)
    begin_ms = max(min((row["since_ms"] for row in spans), default=0), history.from_ms or 0)
    in_time = F.col("ms").between(history.from_ms or 0, end_ms)
    gaps = history.changes.where(in_time & (F.col("kind") == GAP)).orderBy("registry", "ms", "seq")
    aside, corrupt = history.quarantine, history.corrupt_samples
    return Overview(
        begin_ms=begin_ms,
        end_ms=end_ms,
        newest_ms=max([begin_ms, *(row["newest_ms"] for row in spans)]),
        out=_still_out(found, end_ms).count(),
        registries=tuple(sorted(row["registry"] for row in spans)),
        gaps=tuple((row["registry"], row["ms"], row["reason"]) for row in gaps.limit(_MOST).collect()),
        quarantined=0 if aside is None else aside.where(in_time).count(),
        corrupt_samples=0 if corrupt is None else corrupt.count(),
    )


def warnings(overview: Overview) -> list[str]:
    """Return what makes the answers doubtful."""
    quiet_ms, found = overview.end_ms - overview.newest_ms, list[str]()
    if overview.out:
        found.append(f"{counted(overview.out, 'topic')} still out at the end, and counted as out up to then")
    if quiet_ms >= _LONG_QUIET_MS or (overview.out and quiet_ms):
        found.append(
            f"nothing has changed since {exact_time(overview.newest_ms)}, {length_text(quiet_ms)} before the "
            "end: what was so then counts as lasting. If nothing was ingested since, end it there by --until"
        )
    found += [
        f"{registry}: changes were lost after {exact_time(at_ms)} ({why}): what happened then is not known"
        for registry, at_ms, why in overview.gaps
    ]
    if overview.quarantined:
        found.append(f"{counted(overview.quarantined, 'record')} could not be read; see the quarantine")
    if overview.corrupt_samples:
        what = "line, row or file is no sample", "lines, rows or files are no samples"
        found.append(f"{counted(overview.corrupt_samples, *what)}, and left out")
    return found


def grid(found: Found, *, several: bool) -> Grid:
    """Return the first rows of an answer, without columns that say nothing in them."""
    answer = found.answer
    rows = [row for row in found.top if answer.name not in SHOWN or SHOWN[answer.name](row)][:_ROWS]
    columns = [
        column
        for column in answer.columns(several=several)
        if any(row[column.name] is not None for row in rows)
        and (column.name != "system" or rows[-1]["system"])
    ]
    cells = [[cell(column, row[column.name]) for column in columns] for row in rows]
    heads = [
        (column.words, column.meaning, any(row[number].is_number for row in cells))
        for number, column in enumerate(columns)
    ]
    return Grid(answer.name, answer.title, answer.table.meaning, heads, cells, found.total)


def _text(part: Part, work: Working) -> str:
    too_few = work.ladder.too_few if part.anchor == "ladders" else ""
    return f"{part.text} None is recommended: {too_few}." if too_few else part.text


def _chart(part: Part, span: Span, work: Working, found: Findings) -> Chart | None:
    match part.anchor:
        case "incidents":
            return lost_time(found[availability.TOPIC_OUTAGES.name].frame, span)
        case "brokers":
            return timeline(
                work.sessions, work.ends, availability.wiped(work.seen), work.history.faults, span
            )
        case "detection":
            return ranges([row.asDict() for row in found[detection.DETECTION_SUMMARY.name].top])
        case "changes":
            return changes_over_time(work.changes.where(F.col("ms") <= span.end_ms), span)
    return None


# --- what is worst ---


def tiles(overview: Overview, work: Working, found: Findings) -> Iterator[Tile]:
    """Yield the tiles: of each thing the worst, and how much of it there is."""
    yield Tile("worst incident", *_of_incidents(found[incidents.INCIDENTS.name]), "incidents")
    yield Tile("at the end", *_of_now(overview, work, found), "brokers")
    yield Tile("worst topic", *_of_topics(found[availability.TOPIC_AVAILABILITY.name]), "topics")
    if incidents.TOPIC_BUDGETS.name in found:
        yield Tile(f"objective {work.history.slo or 0.0:g} %", *_of_budgets(overview, found), "topics")
    yield Tile("latest topic that went", *_of_lives(overview, found), "changes")
    yield Tile("worst replica", *_of_brokers(found[uptime.BROKER_RELIABILITY.name]), "brokers")
    yield from _of_owners(found[uptime.BROKER_RELIABILITY.name])
    yield Tile("latest known end", *_of_detection(found[detection.DETECTION_SUMMARY.name]), "detection")
    if detection.CLIENTS.name in found:
        sent = found[latency.LATENCY.name]
        yield Tile("worst client", *_of_clients(found[detection.CLIENTS.name], sent), "clients")
    if placement.SINGLE_BROKER_TOPICS.name in found:
        single = found[placement.SINGLE_BROKER_TOPICS.name]
        yield Tile("on one broker only", *_of_placement(single.total), "placement")


def _of_incidents(found: Found) -> Said:
    if not found.top:
        return "none", "no broker failed, and no topic lost its brokers", "good"
    row = found.top[0]
    who = names_text(row["brokers"], row["broker_count"])
    note = [f"{time_text(row['from_ms'])} {who}".strip()]
    if row["failures"]:
        note.append(counted(row["failures"], "failure"))
    if row["silent"]:
        note.append(f"silent before: {names_text(row['silent'], len(row['silent']))}")
    if row["outages"]:
        outages = counted(row["outages"], "topic outage")
        note.append(f"{outages}, {length_text(row['lost_min'] * 60_000)} in all")
    note.append(f"{counted(found.total, 'incident')} in all")
    return length_text(row["lasted_ms"]), "; ".join(note), "bad" if row["outages"] else "warn"


def _of_now(overview: Overview, work: Working, found: Findings) -> Said:
    """Return what is still out at the end of the observation, and by whom."""
    is_away = F.col("ended").isin("clean", "gone", "expired") & ~F.col("returned")
    gone = work.sessions.where(is_away & (F.col("away_until_ms") >= overview.end_ms))
    away, count = gone.orderBy("broker", "broker_id").limit(_ROWS).collect(), gone.count()
    names = [f"{row['broker']}:{row['broker_id']}" for row in away]
    note = f"away at the end: {names_text(names, count)}" if count else "every known replica was alive"
    wiped = availability.wiped(work.seen).where((F.col("to_ms") >= overview.end_ms) & ~F.col("over"))
    silent, wipes = wiped.orderBy("from_ms", "broker").limit(_ROWS).collect(), wiped.count()
    if wipes:
        brokers = names_text([row["broker"] for row in silent], wipes)
        by = _by(found, "wiped", "brokers", silent[0]["broker"])
        note += f"; without write permission since {time_text(silent[0]['from_ms'])}: {brokers}{by}"
    if overview.out:
        out = _still_out(found, overview.end_ms)
        return f"{counted(overview.out, 'topic')} out", f"{_causes(out)}; {note}", "bad"
    if count:
        return f"{counted(count, 'replica')} away", note, "warn"
    return (f"{counted(wipes, 'broker')} wiped", note, "warn") if wipes else ("all there", note, "good")


def _still_out(found: Findings, end_ms: int) -> DataFrame:
    """Return the outages that last at the end, but for those of RocketMQ's own topics."""
    is_now = (F.col("to_ms") >= end_ms) & ~F.col("over") & ~F.col("system")
    return found[availability.TOPIC_OUTAGES.name].frame.where(is_now)


def _by(found: Findings, did: str, whose: str, name: str) -> str:
    """Return who did something last to a broker, or to a topic, as far as that is told."""
    acts = found[churn.OPERATIONS.name].top
    who = next((row["by"] for row in acts if row["did"] == did and name in row[whose]), None)
    return f" (by {who})" if who else ""


def _causes(out: DataFrame) -> str:
    """Return since when topics are out, and who caused it how."""
    who, how = (F.array_distinct(F.flatten(F.collect_set(name))) for name in ("caused_by", "causes"))
    from_ms, brokers, causes = out.agg(F.min("from_ms"), F.sort_array(who), F.sort_array(how)).collect()[0]
    by = f" by {names_text(brokers, len(brokers))} ({', '.join(causes)})" if brokers else ""
    return f"since {time_text(from_ms)}{by}"


def _of_lives(overview: Overview, found: Findings) -> Said:
    """Return what went from all its brokers last: to delete a topic is no outage, and can be a mistake."""
    lives = found[churn.TOPIC_LIVES.name]
    count = lives.sums(count=F.count_if(~F.col("system") & F.col("gone_ms").isNotNull()))["count"]
    if not count:
        return "none", "no topic went from all its brokers", ""
    last = lives.top[0]
    whose = names_text(last["brokers"], len(last["brokers"]))
    by = _by(found, "deleted", "topics", last["topic"])
    now = "back" if last["gone_ms"] + last["gone_for_ms"] < overview.end_ms else "still gone"
    note = f"{last['topic']} from {whose} at {time_text(last['gone_ms'])}{by}, {now} after "
    return counted(count, "topic"), note + length_text(last["gone_for_ms"]), ""


def _of_topics(found: Found) -> Said:
    hit, users = found.sums(
        hit=F.count_if(~F.col("system") & (F.col("outages") > 0)), users=F.count_if(~F.col("system"))
    )
    if not hit:
        return "none was out", f"of {counted(users, 'topic')}", "good"
    row = found.top[0]
    lost = f"{counted(row['outages'], 'outage')}, {length_text(row['lost_min'] * 60_000)} lost"
    value = share_text(row["availability"]) if row["availability"] is not None else "unknown"
    return value, f"{row['topic']}: {lost}; {counted(hit, 'topic')} hit", "bad"


def verdicts(budgets: Found) -> dict[str, int]:
    """Return how many topics, but for RocketMQ's own, did how by the objective."""
    counts = budgets.frame.where("not system").groupBy("verdict").count()
    return {row["verdict"]: row["count"] for row in counts.collect()}


def _of_budgets(overview: Overview, found: Findings) -> Said:
    counts = verdicts(found[incidents.TOPIC_BUDGETS.name])
    missed, burning, all_of_them = counts.get("missed", 0), counts.get("burning", 0), sum(counts.values())
    note = f"{missed:,} missed it, {burning:,} burning besides, of {counted(all_of_them, 'topic')}"
    note += f", up to {time_text(overview.end_ms)}"
    level = "bad" if missed else "warn" if burning else "good"
    return "missed" if missed else "burning" if burning else "met", note, level


def _of_brokers(found: Found) -> Said:
    failures = found.sums(failures=F.sum("failures"))["failures"] or 0
    note = f"{counted(failures, 'failure')}, {counted(found.total, 'replica')} in all"
    if not found.top or not found.top[0]["away_ms"]:
        return "none was away", note, "good"
    row = found.top[0]
    who = f"{row['broker']}:{row['broker_id']}"
    away = f"away {length_text(row['away_ms'])}, {length_text(row['longest_away_s'] * 1_000)} at the longest"
    return share_text(row["availability"]), f"{who}: {away}; {note}", "warn"


def _of_detection(found: Found) -> Said:
    """Return how late an end was known at worst, beside what RocketMQ would have taken."""
    rows = {row["stage"]: row for row in found.top if row["ends"]}
    told, theirs = rows.get("told"), rows.get("rocketmq told")
    if told is None:
        return "none", "no broker ended unasked, or nobody knows when", ""
    beside = f"; RocketMQ's name server: {length_text(theirs['max_ms'])} (computed)" if theirs else ""
    note = f"half of {counted(told['ends'], 'end')} within {length_text(told['p50_ms'])}{beside}"
    return length_text(told["max_ms"]), note, ""


def _of_owners(found: Found) -> Iterator[Tile]:
    """Yield who was taken over again and again: two agents for one replica, which is alive all the time."""
    again = found.frame.where("takeovers > 1 OR restarts > 2")
    if most := again.orderBy(F.expr("-takeovers - restarts"), "broker", "broker_id").first():
        times = counted(most.takeovers + most.restarts, "take-over")
        note = f"{most.broker}:{most.broker_id} was taken from an owner that lived: has it two agents?"
        yield Tile("most take-overs", times, note, "warn", "brokers")


def _of_clients(found: Found, sent: Found) -> Said:
    if not found.top or not (found.top[0]["misdirected"] or found.top[0]["failures"]):
        return "none", f"no attempt of {counted(found.total, 'client')} failed", "good"
    row, sums = found.top[0], found.sums(misdirected=F.sum("misdirected"), failures=F.sum("failures"))
    failures = sent.frame.groupBy("broker").agg(F.sum("failures").alias("failures"))
    (worst,) = failures.orderBy(F.desc("failures"), "broker").limit(1).collect()
    note = (
        f"{row['client']}: {share_text(row['failure_share'])} of its attempts failed; of all clients "
        f"{round(sums['failures']):,} failed, {round(sums['misdirected']):,} at brokers that were gone, "
        f"{round(worst['failures']):,} at {worst['broker']}"
    )
    return counted(round(row["failures"]), "failed send"), note, "warn"


def _of_placement(topics: int) -> Said:
    if not topics:
        return "no topic", "every topic has a second broker", "good"
    whose = "its" if topics == 1 else "their"
    return counted(topics, "topic"), f"would be out if {whose} only broker were", "warn"
