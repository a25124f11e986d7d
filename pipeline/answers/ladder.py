"""Which latency ladder samples recommend, and what it and RocketMQ's would have done to the attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as f

from ...client import LADDER, LADDER_4, Ladder
from ...registry.wording import counted
from ..tables import table
from .frames import weighed
from .replay import CANDIDATES, Attempt, Isolation, Ladders, Stretch, isolation_ms

RECOMMENDED: Final = "recommended"
"""What the ladder that is computed from the samples is called."""

LADDERS: Final[Mapping[str, Ladder]] = {"RocketMQ >= 5.1.4": LADDER, "RocketMQ < 5.1.4": LADDER_4}
"""What every ladder is compared with."""

LADDER_SCORES: Final = table("""
    ladder_scores: a ladder, and what it would have done to all attempts; the best first
    ladder string: recommended (if one is), RocketMQ >= 5.1.4, RocketMQ < 5.1.4
    rank int: 1 = the best by the objective
    score double: saved - withheld_weight * withheld
    attempts double: attempts that the samples stand for
    bad double: those that failed, or took slow_ms or longer
    saved double: bad ones that would have gone elsewhere
    withheld double: healthy ones that would have gone elsewhere
    isolations bigint: times that a client would have begun to leave a broker alone
    failure_isolation_ms bigint: how long a broker is left alone after a failure
    steps array<string>: each step as `latency: isolation`, in ms: an answer that takes at least so long, and
        for how long the broker is left alone then
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

_WHOSE: Final = ("client", "registry", "broker")
"""Whose attempts a ladder goes by, one after the other."""


class _Done(NamedTuple):
    """What a ladder would have done to all attempts."""

    saved: float
    withheld: float
    isolations: int

    def score(self, objective: Objective) -> float:
        return round(self.saved - objective.withheld_weight * self.withheld, _DIGITS)


class LadderAnswer(NamedTuple):
    """All that samples say of ladders."""

    recommended: Ladder | None
    """None = the samples tell too little: `too_few` says how much."""

    too_few: str
    """Why no ladder is recommended; empty = one is."""

    scores: DataFrame


def ladder_answer(
    samples: DataFrame, objective: Objective = DEFAULT, candidates: Sequence[Ladder] = CANDIDATES
) -> LadderAnswer:
    """Return the ladder that SAMPLES recommend, and how it and RocketMQ's would have done; runs jobs.

    It is the candidate with the highest score, of equal ones the first.
    """
    is_bad = f.col("failed") | (f.col("latency_ms") >= objective.slow_ms)
    marked = weighed(samples).withColumn("is_bad", is_bad)
    bad = f.sum(f.when(is_bad, f.col("weight")).otherwise(0.0))
    sent, failures, *sums = marked.agg(f.count("*"), f.count_if("failed"), f.sum("weight"), bad).collect()[0]
    too_few = _too_few(sent, failures, objective.least_failures)
    # RocketMQ's are replayed with the others: the attempts are sorted, and go through Python, once.
    tried = (*(() if too_few else candidates), *LADDERS.values())
    replayed = [*zip(tried, _replayed(marked, tried), strict=True)]
    named, best = dict(zip(LADDERS, replayed[-len(LADDERS) :], strict=True)), None
    if not too_few:
        first = max(replayed[: len(candidates)], key=lambda one: one[1].score(objective))
        named, best = {RECOMMENDED: first} | named, first[0]
    in_all = [round(value or 0.0, _DIGITS) for value in sums]
    best_first = sorted(named.items(), key=lambda one: -one[1][1].score(objective))
    rows = [
        (name, rank, done.score(objective), *in_all, *done, *_told(ladder))
        for rank, (name, (ladder, done)) in enumerate(best_first, start=1)
    ]
    return LadderAnswer(best, too_few, samples.sparkSession.createDataFrame(rows, LADDER_SCORES.schema))


def _told(ladder: Ladder) -> tuple[int, list[str]]:
    """Return for how long a failure isolates, and the steps."""
    steps = zip(ladder.latency_ms, ladder.isolation_ms, strict=True)
    return isolation_ms(ladder, 0, failed=True), [f"{latency_ms}: {for_ms}" for latency_ms, for_ms in steps]


def _too_few(attempts: int, failures: int, least: int) -> str:
    """Return why samples recommend no ladder; empty = they have failures enough."""
    if failures >= least:
        return ""
    are = "is" if failures == 1 else "are"
    return (
        f"{counted(failures, 'failure')} of {counted(attempts, 'attempt')} {are} too few to recommend one; "
        f"{least:,} are needed"
    )


def _replayed(marked: DataFrame, tried: Sequence[Ladder]) -> list[_Done]:
    """Return what each ladder would have done."""
    ladders = Ladders(tried)
    least_ms, nothing = ladders.least_ms, np.zeros((len(tried), len(_Done._fields)))

    def replay(sent: Iterable[Row]) -> Iterator[NDArray[np.float64]]:
        sums = nothing.copy()
        for stretch in _stretches(sent, least_ms):
            if stretch.triggers:
                # Most ladders of a grid say the same of a stretch: that is replayed once.
                told, which = ladders.answers(stretch.triggers)
                sums += np.array([_come_to(stretch.replay(answers)) for answers in told])[which]
        yield sums

    parts = _sorted(marked, ladders).rdd.mapPartitions(replay).collect()
    # Rounded, because the order of a sum must not decide.
    sums = np.round(np.sum([nothing, *parts], axis=0), _DIGITS)
    return [_Done(saved, withheld, round(isolations)) for saved, withheld, isolations in sums.tolist()]


def _come_to(isolations: Sequence[Isolation]) -> _Done:
    return _Done(
        sum(one.saved for one in isolations), sum(one.withheld for one in isolations), len(isolations)
    )


def _sorted(marked: DataFrame, ladders: Ladders) -> DataFrame:
    """Return one partition after the other the attempts of each client at each broker, in order.

    Only those that matter: what any of the ladders may isolate for, and what began before the longest
    isolation after that is over.
    """
    # A join never finds a null.
    joinable = marked.withColumns(
        {"told_of": f.coalesce("registry", f.lit("")), "begin_ms": f.col("at_ms") - f.col("latency_ms")}
    )
    # Names are compared by number: the least of strings is found by sorting all rows.
    number = f.xxhash64("broker")
    is_only = (f.min(number) == f.max(number)).alias("is_only")
    brokers = joinable.groupBy("told_of", "topic").agg(is_only)
    order = ["at_ms", "latency_ms", "outcome", "isolated", "topic", "attempt"]
    until_then = Window.partitionBy(*_WHOSE).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    is_trigger = f.col("failed") | (f.col("latency_ms") >= ladders.least_ms)
    last_ms = f.max(f.when(is_trigger, f.col("at_ms"))).over(until_then)
    return (
        joinable.join(brokers, ["told_of", "topic"])
        .withColumn("forced", f.col("isolated") | f.col("is_only"))
        .repartition(*_WHOSE)
        .withColumn("last_ms", last_ms)
        .where(f.col("begin_ms") < f.col("last_ms") + ladders.longest_ms)
        .sortWithinPartitions(*_WHOSE, *order)
        .select(*_WHOSE, "at_ms", "latency_ms", "failed", "is_bad", "forced", "weight")
    )


def _stretches(rows: Iterable[Row], least_ms: float) -> Iterator[Stretch]:
    """Yield the attempts of each client at each broker."""
    count = len(_WHOSE)
    for _, of_one in groupby(rows, key=itemgetter(*range(count))):
        yield Stretch((Attempt(*row[count:]) for row in of_one), least_ms)
