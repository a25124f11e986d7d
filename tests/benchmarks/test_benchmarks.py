"""Every benchmark runs; how fast anything is, is not asserted here."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from benchmarks import (
    agent,
    expiry,
    fanout,
    heartbeat,
    idle,
    lookup,
    memory,
    outage,
    propagate,
    refresh,
    register,
    rejoin,
    samples,
    select,
    storm,
    table_size,
)
from benchmarks.__main__ import BENCHMARKS
from benchmarks.kit.figures import Outcome
from benchmarks.kit.redis_benchmark import rate_of
from benchmarks.kit.usage import processes_are_seen


@dataclass(frozen=True)
class Case:
    """One benchmark with tiny parameters."""

    name: str
    run: Callable[[], Outcome]
    targets: int
    """Figures that have one."""


CASES = (
    Case(
        "lookup",
        lambda: lookup.run(
            lookup.Size(rounds=1, topics=50, brokers=2, topics_per_lookup=10, lookups=1, gets=50_000)
        ),
        2 if shutil.which("redis-benchmark") else 1,
    ),
    Case(
        "register",
        lambda: register.run(register.Size(rounds=1, topics=20, brokers=2, many_rounds=1, many_topics=40)),
        7,
    ),
    Case(
        "heartbeat",
        lambda: heartbeat.run(heartbeat.Size(rounds=1, beats=5, few_topics=1, many_topics=20)),
        1,
    ),
    Case(
        "memory",
        lambda: memory.run(memory.Size(entries=2_000, brokers=4, brokers_per_topic=(2,))),
        2,
    ),
    Case(
        "table_size",
        lambda: table_size.run(
            table_size.Size(
                rounds=1,
                few_entries=40,
                many_entries=80,
                brokers=4,
                brokers_per_topic=2,
                topics=(1, 5),
                lookups=2,
                busy_lookups=1,
                ballast_bytes=1_024,
            )
        ),
        2,
    ),
    Case(
        "select",
        lambda: select.run(
            select.Size(
                rounds=1,
                selections=80,
                together=160,
                brokers=3,
                queues=2,
                wide_queues=30,
                isolated=1,
                java=False,
            )
        ),
        7,
    ),
    Case("samples", lambda: samples.run(samples.Size(rounds=5, attempts=2_000, brokers=2)), 1),
    Case(
        "refresh",
        lambda: refresh.run(
            refresh.Size(rounds=1, topics=300, brokers=4, brokers_per_topic=2, topics_of_trips=20)
        ),
        4,
    ),
    Case(
        "outage", lambda: outage.run(outage.Size(rounds=1, round_s=0.05, threads=2, brokers=2, queues=1)), 2
    ),
    Case(
        "storm",
        lambda: storm.run(
            storm.Size(
                storms=((3, storm.EMPTY), (3, storm.SOON), (3, storm.BY_HAND)),
                processes=1,
                topics=4,
                brokers=2,
                reconnect_s=0.5,
                settle_s=0.0,
                steady_s=3.5,
                down_s=0.1,
                soon_s=0.0,
                return_s=2.0,
                later_s=1.2,
            )
        ),
        3,
    ),
    Case("propagate", lambda: propagate.run(propagate.Size(changes=2, topics=3)), 2),
    Case("fanout", lambda: fanout.run(fanout.Size(rounds=1, changes=2, followers=3)), 1),
    Case(
        "expiry",
        lambda: expiry.run(
            expiry.Size(
                trials=2,
                few_leases=2,
                many_leases=3,
                other_keys=10,
                first_s=1.5,
                event_wait_s=0.5,
                idle_s=2.5,
            )
        ),
        3,
    ),
    Case(
        "agent",
        lambda: agent.run(
            agent.Size(
                trials=1,
                take_overs=1,
                losses=1,
                losses_of_all=1,
                hosts=1,
                heartbeat_s=0.25,
                lease_ttl_s=2.0,
                short_heartbeat_s=0.25,
                short_ttl_s=2.0,
            )
        ),
        7,
    ),
    Case(
        "idle",
        lambda: idle.run(
            idle.Size(
                few_topics=1,
                many_topics=20,
                rounds=1,
                round_s=0.6,
                settle_s=0.0,
                heartbeat_s=0.2,
                lease_ttl_s=10.0,
                installs=False,
            )
        ),
        7 if processes_are_seen() else 3,
    ),
    Case(
        "rejoin",
        lambda: rejoin.run(
            rejoin.Size(
                agents=3,
                processes=1,
                topics_per_broker=2,
                brokers_per_topic=2,
                heartbeat_s=0.2,
                lease_ttl_s=10.0,
                restarts=1,
                down_s=0.1,
                settle_s=0.0,
                steady_s=0.6,
            )
        ),
        2,
    ),
)


QUICK = ("lookup", "register", "heartbeat", "memory")
"""The benchmarks that start nothing but a server; the others take seconds each, even at their smallest."""


ELSEWHERE = (
    *("nameserver", "nameserver_faults"),
    *("peers.register", "peers.lookup", "peers.propagate", "peers.crash", "peers.watchers"),
    *("scale.clients", "scale.replicas", "scale.brokers", "scale.topics"),
)
"""The benchmarks of test_nameserver.py, test_peers.py and test_scale.py."""


def test_every_benchmark_is_run_here_or_elsewhere() -> None:
    assert [*(case.name for case in CASES), *ELSEWHERE] == list(BENCHMARKS)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in QUICK else pytest.mark.long)
        for case in CASES
    ],
)
def test_a_benchmark_measures_something_and_has_targets(case: Case) -> None:
    figures = case.run().figures
    assert all(math.isfinite(value) and value > 0 for figure in figures for value in figure.rounds)
    assert sum(figure.target is not None for figure in figures) == case.targets
    assert len({figure.name for figure in figures}) == len(figures)


def test_without_redis_benchmark_the_raw_read_is_compared_with_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "redis-benchmark" else which(name))
    outcome = CASES[0].run()
    assert not any("redis-benchmark" in figure.name for figure in outcome.figures)
    assert any("not on PATH" in note for note in outcome.notes)


def test_the_rate_is_read_from_the_last_line_of_the_csv() -> None:
    csv = '"test","rps","avg_latency_ms"\n"GET key:__rand_int__","1932367.12","0.441"\n'
    assert rate_of(csv) == pytest.approx(1_932_367.12)
