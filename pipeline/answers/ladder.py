"""How often a latency ladder was right about brokers, and which ladder these samples recommend."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from ...client import LADDER, LADDER_4, Ladder
from ..tables import table
from .frames import each_of, shaped, weighed
from .replay import CANDIDATES, Attempt, Isolation, Ladders, Stretch, isolation_ms

RECOMMENDED: Final = "recommended"
"""What the ladder that is computed from the samples is called."""

LADDERS: Final[Mapping[str, Ladder]] = {"RocketMQ >= 5.1.4": LADDER, "RocketMQ < 5.1.4": LADDER_4}
"""What every ladder is compared with."""

_LADDER: Final = "ladder string: recommended (if one is), RocketMQ >= 5.1.4, RocketMQ < 5.1.4"

ISOLATIONS: Final = table(f"""
    isolations: a time for which a client that goes by a ladder would have left a broker alone
    {_LADDER}
    client string: which client process
    registry string: which registry, as in SAMPLES; null = not told
    broker
    from_ms bigint: when it begins, by the store's clock, ms since 1970
    to_ms bigint: when it ends; further slow or failed answers can have put that off
    cause string: failure, latency: what the answer was that began it
    latency_ms double: how long that answer took
    saved double: bad attempts of this client that it would have sent elsewhere
    withheld double: healthy attempts of this client that it would have sent elsewhere
    bad double: bad attempts of all clients at the broker that began within that time
    healthy double: healthy attempts of all clients that began within that time
    verdict string: right: sending elsewhere was worth it, by the objective; wrong: it was not; unknown:
        nobody sent to the broker then, or the store's clock was not known
""")

LADDER_DECISIONS: Final = table(f"""
    ladder_decisions: a ladder at a broker, or at all of them: how often it was right
    {_LADDER}
    registry string: which registry, as in SAMPLES; null = not told, or all of them
    broker string: broker name; null = all of them
    isolations bigint: times that a client would have begun to leave it alone
    right bigint: those with the verdict right
    wrong bigint: those with the verdict wrong
    unknown bigint: those that cannot be judged
    precision double = right / (right + wrong); null = none can be judged
    isolated_ms bigint: how long it would have been left alone, over all clients
    bad double: bad attempts that were made
    saved double: those that would have gone elsewhere
    recall double = saved / bad; null = there was no bad one
    healthy double: healthy attempts that were made
    withheld double: those that would have gone elsewhere
    withheld_share double = withheld / healthy; null = there was no healthy one
""")

LADDER_SCORES: Final = table(f"""
    ladder_scores: a ladder, and what it would have done to all attempts; the best first
    {_LADDER}
    rank int: 1 = the best by the objective
    score double: saved - withheld_weight * withheld
    attempts double: attempts that the samples stand for
    bad double: those that failed, or took slow_ms or longer
    saved double: bad ones that would have gone elsewhere
    withheld double: healthy ones that would have gone elsewhere
    isolations bigint: times that a client would have begun to leave a broker alone
    failure_isolation_ms bigint: how long a broker is left alone after a failure
""")

LADDER_STEPS: Final = table(f"""
    ladder_steps: a step of a ladder: an answer that takes at least `latency_ms` isolates for `isolation_ms`
    {_LADDER}
    step int: from 1 on
    latency_ms bigint: an answer that takes so long, and no longer than the next step
    isolation_ms bigint: for how long the broker is left alone; 0 = it is not
    is_failure boolean: whether a failure counts as this step, however quickly it came
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What a good ladder is: score = bad attempts saved - withheld_weight * healthy attempts withheld."""

    slow_ms: float = 550.0
    """An attempt that takes so long is bad, as is one that fails; RocketMQ's ladders isolate from here on."""

    withheld_weight: float = 0.1
    """What it costs to send a healthy attempt elsewhere, in bad attempts."""

    least_failures: int = 100
    """Fewer recorded failures recommend no ladder: of hundreds, one is the best of a few by chance."""


DEFAULT: Final = Objective()

_DIGITS: Final = 6
"""Sums of fractions are rounded to so many digits: their order must decide nothing."""

_REPLAYED: Final = (
    "ladder string, client string, registry string, broker string, from_ms bigint, to_ms bigint, "
    "cause string, latency_ms double, saved double, withheld double, known boolean"
)

_WHOSE: Final = ("client", "registry", "broker")
"""Whose attempts a ladder goes by, one after the other."""

_DECIDED_BY: Final = ("ladder", "registry", "broker")


@dataclass(frozen=True, slots=True)
class LadderAnswer:
    """All that samples say of ladders."""

    recommended: Ladder | None
    """None = the samples tell too little: `too_few` says how much."""

    too_few: str
    """Why no ladder is recommended; empty = one is."""

    scores: DataFrame
    steps: DataFrame
    isolations: DataFrame
    decisions: DataFrame


def ladder_answer(
    samples: DataFrame,
    objective: Objective = DEFAULT,
    keep: Callable[[DataFrame], DataFrame] = DataFrame.persist,
    candidates: Sequence[Ladder] = CANDIDATES,
) -> LadderAnswer:
    """Return the ladder that SAMPLES recommend, and how it and RocketMQ's would have done; runs jobs.

    It is the candidate with the highest score, of equal ones the first. `keep` is what is done with that of
    which several answers are made.
    """
    too_few = _too_few(samples, objective.least_failures)
    tried = () if too_few else candidates
    marked = _marked(samples, objective)
    # The attempts are sorted once, for all the ladders that go by them.
    of_all = Ladders((*tried, *LADDERS.values()))
    rows = keep(_sorted(marked, of_all))
    best = _best(rows, objective, tried, of_all.least_ms) if tried else None
    named = LADDERS if best is None else {RECOMMENDED: best, **LADDERS}
    found = keep(_isolations(rows, marked, named, objective))
    ladders = _of_ladders(samples.sparkSession, named)
    sums = _sums(marked, found, ladders)
    return LadderAnswer(
        best,
        too_few,
        _scores(sums, ladders, objective),
        _steps(samples.sparkSession, named),
        found,
        _decisions(sums),
    )


def _too_few(samples: DataFrame, least: int) -> str:
    """Return why samples recommend no ladder; empty = they have failures enough."""
    is_failure = f.col("outcome") == "failed"
    attempts, failures = samples.agg(f.count("*"), f.count_if(is_failure)).collect()[0]
    if failures >= least:
        return ""
    what = "1 failure" if failures == 1 else f"{failures:,} failures"
    are = "is" if failures == 1 else "are"
    return f"{what} of {attempts:,} attempts {are} too few to recommend one; {least:,} are needed"


def _best(rows: DataFrame, objective: Objective, candidates: Sequence[Ladder], least_ms: float) -> Ladder:
    ladders = Ladders(candidates)

    def replay(sent: Iterable[Row]) -> Iterator[list[float]]:
        scores = [0.0] * len(candidates)
        for _, stretch in _stretches(sent, least_ms):
            # Most ladders of a grid say the same of a stretch: that is replayed once.
            told = [*ladders.answers(stretch.triggers)]
            score = {answers: _score(stretch.replay(answers), objective) for answers in {*told}}
            for place, answers in enumerate(told):
                scores[place] += score[answers]
        yield scores

    parts = rows.rdd.mapPartitions(replay).collect()
    nothing = [0.0] * len(candidates)
    # Rounded, because the order of a sum must not decide.
    scores = [round(sum(of_one), _DIGITS) for of_one in zip(nothing, *parts, strict=True)]
    return candidates[scores.index(max(scores))]


def _score(isolations: Iterable[Isolation], objective: Objective) -> float:
    return sum(one.saved - objective.withheld_weight * one.withheld for one in isolations)


def _isolations(
    rows: DataFrame, marked: DataFrame, named: Mapping[str, Ladder], objective: Objective
) -> DataFrame:
    """Return ISOLATIONS that clients with these ladders would have made, ordered by ladder, time, client."""
    names, ladders = [*named], Ladders([*named.values()])

    def replay(sent: Iterable[Row]) -> Iterator[tuple[object, ...]]:
        for whose, stretch in _stretches(sent, ladders.least_ms):
            for name, answers in zip(names, ladders.answers(stretch.triggers), strict=False):
                for from_ms, to_ms, cause, saved, withheld in stretch.replay(answers):
                    why = "failure" if cause.failed else "latency"
                    latency_ms, known = cause.latency_ms, cause.known
                    yield name, *whose, from_ms, to_ms, why, latency_ms, saved, withheld, known

    replayed = rows.rdd.mapPartitions(replay)
    found = rows.sparkSession.createDataFrame(replayed, _REPLAYED, verifySchema=False)
    pays = f.col("bad") > objective.withheld_weight * f.col("healthy")
    nobody = ~f.col("known") | (f.col("bad") + f.col("healthy") == 0)
    verdict = f.when(nobody, "unknown").when(pays, "right").otherwise("wrong")
    return (
        _with_what_followed(found, marked)
        .withColumn("verdict", verdict)
        .select(*ISOLATIONS.names)
        .orderBy("ladder", "from_ms", "client", "registry", "broker")
    )


def _sums(marked: DataFrame, found: DataFrame, ladders: DataFrame) -> DataFrame:
    """Return what was sent, and what each ladder did: at each broker, and at all of them (`is_all`)."""
    sums = ("attempts", "bad", "healthy", "saved", "withheld", "isolated_ms")
    made = marked.groupBy("registry", "broker").agg(
        *(f.sum(name).alias(name) for name in ("attempts", "bad", "healthy"))
    )
    done = found.withColumn("isolated_ms", f.col("to_ms") - f.col("from_ms")).drop("bad", "healthy")
    return (
        ladders.select("ladder")
        .crossJoin(made)
        .unionByName(done, allowMissingColumns=True)
        .groupingSets([[*_DECIDED_BY], ["ladder"]], *_DECIDED_BY)
        .agg(
            (f.grouping("broker") == 1).alias("is_all"),
            f.count("verdict").alias("isolations"),
            *(f.count_if(f.col("verdict") == one).alias(one) for one in ("right", "wrong", "unknown")),
            *(f.sum(name).alias(name) for name in sums),
        )
        .fillna(0, [*sums])
    )


def _decisions(sums: DataFrame) -> DataFrame:
    """Return LADDER_DECISIONS, ordered by ladder, then registry and broker, what is of all of them first."""
    return shaped(sums.orderBy("ladder", f.desc("is_all"), "registry", "broker"), LADDER_DECISIONS)


def _scores(sums: DataFrame, ladders: DataFrame, objective: Objective) -> DataFrame:
    """Return LADDER_SCORES, the best first."""
    score = f.round(f.col("saved") - objective.withheld_weight * f.col("withheld"), _DIGITS)
    best_first = Window.orderBy(f.col("score").desc(), "place")
    return (
        ladders.join(sums.where("is_all"), "ladder", "left")
        .fillna(0, ["saved", "withheld", "isolations"])
        .withColumn("score", score)
        .withColumn("rank", f.row_number().over(best_first))
        .select(*LADDER_SCORES.names)
        .orderBy("rank")
    )


def _of_ladders(spark: SparkSession, ladders: Mapping[str, Ladder]) -> DataFrame:
    rows = [
        (name, place, isolation_ms(ladder, 0, failed=True))
        for place, (name, ladder) in enumerate(ladders.items())
    ]
    return spark.createDataFrame(rows, "ladder string, place int, failure_isolation_ms bigint")


def _steps(spark: SparkSession, ladders: Mapping[str, Ladder]) -> DataFrame:
    """Return LADDER_STEPS of these ladders."""
    rows = [
        (name, number, latency_ms, for_ms, number == bisect_right(one.latency_ms, one.failure_latency_ms))
        for name, one in ladders.items()
        for number, (latency_ms, for_ms) in enumerate(
            zip(one.latency_ms, one.isolation_ms, strict=True), start=1
        )
    ]
    return spark.createDataFrame(rows, LADDER_STEPS.schema)


# --- what goes into the replay ------------------------------------------------------------------------------


def _marked(samples: DataFrame, objective: Objective) -> DataFrame:
    """Return the samples with what they stand for: `attempts`, and of these the `bad` and the `healthy`."""
    weight, is_bad = f.col("weight"), f.col("failed") | (f.col("latency_ms") >= objective.slow_ms)
    return weighed(samples).withColumns(
        {
            "attempts": weight,
            "bad": f.when(is_bad, weight).otherwise(0.0),
            "healthy": f.when(is_bad, 0.0).otherwise(weight),
            "is_bad": is_bad,
            "begin_ms": f.col("at_ms") - f.col("latency_ms"),
        }
    )


def _sorted(marked: DataFrame, ladders: Ladders) -> DataFrame:
    """Return one partition after the other the attempts of each client at each broker, in order.

    Only those that matter: what any of the ladders may isolate for, and what began before the longest
    isolation after that is over.
    """
    # A join never finds a null.
    joinable = marked.withColumn("told_of", f.coalesce("registry", f.lit("")))
    is_only = (f.min("broker") == f.max("broker")).alias("is_only")
    brokers = joinable.groupBy("told_of", "topic").agg(is_only)
    order = ["at_ms", "latency_ms", "outcome", "isolated", "topic", "attempt"]
    until_then = Window.partitionBy(*_WHOSE).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    is_trigger = f.col("failed") | (f.col("latency_ms") >= ladders.least_ms)
    last_ms = f.max(f.when(is_trigger, f.col("at_ms"))).over(until_then)
    return (
        joinable.join(brokers, ["told_of", "topic"])
        .withColumn("forced", f.col("isolated") | f.col("is_only"))
        .withColumn("known", f.col("error_ms").isNotNull())
        .repartition(*_WHOSE)
        .withColumn("last_ms", last_ms)
        .where(f.col("begin_ms") < f.col("last_ms") + ladders.longest_ms)
        .sortWithinPartitions(*_WHOSE, *order)
        .select(*_WHOSE, "at_ms", "latency_ms", "failed", "is_bad", "forced", "known", "attempts")
    )


def _stretches(rows: Iterable[Row], least_ms: float) -> Iterator[tuple[tuple[str, ...], Stretch]]:
    """Yield whose they are, by _WHOSE, with the attempts."""
    count = len(_WHOSE)
    for whose, of_one in groupby(rows, key=itemgetter(*range(count))):
        yield whose, Stretch((Attempt(*row[count:]) for row in of_one), least_ms)


def _with_what_followed(found: DataFrame, marked: DataFrame) -> DataFrame:
    """Add `bad` and `healthy`: attempts of all clients at the broker that began within the isolation.

    What began before a time is summed up once for each broker; the isolations' two ends are looked up there.
    """
    begun = marked.where(f.col("error_ms").isNotNull()).select(
        "registry", "broker", f.col("begin_ms").alias("time_ms"), f.lit(1).alias("order"), "bad", "healthy"
    )
    # At the same time the end of an isolation comes first: it is looked up before what begins then.
    ends = found.select(
        "*",
        each_of(
            {"time_ms": f.col("from_ms").cast("double"), "order": f.lit(0), "sign": f.lit(-1)},
            {"time_ms": f.col("to_ms").cast("double"), "order": f.lit(0), "sign": f.lit(1)},
        ),
    )
    until_then = (
        Window.partitionBy("registry", "broker")
        .orderBy("time_ms", "order")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    so_far = {name: f.coalesce(f.sum(name).over(until_then), f.lit(0.0)) for name in ("bad", "healthy")}
    return (
        ends.unionByName(begun, allowMissingColumns=True)
        .withColumns(so_far)
        .where(f.col("sign").isNotNull())
        .groupBy(*found.columns)
        .agg(*(f.round(f.sum(f.col("sign") * f.col(name)), _DIGITS).alias(name) for name in so_far))
    )
