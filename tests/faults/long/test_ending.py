"""Ends of agents and brokers in every order, 20 times each; `--log-cli-level info` shows the times."""

from __future__ import annotations

import logging
import statistics
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import ChangeKind, EmbeddedServer
from tests.faults.ending import Lookups, Pod, figures
from tests.faults.orders import KUBERNETES, SYSTEMD

ROUNDS: Final = 20
say = logging.getLogger(__name__).info
AT_MOST_S: Final = 0.2
"""From the end of the broker until no client is told it any more, in half of the rounds on a busy machine."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stop_watch_s", [0.0, 1.0])
def test_no_lookup_fails_in_any_of_many_restarts(
    tmp_path: Path, own_server: EmbeddedServer, stop_watch_s: float
) -> None:
    with Pod(tmp_path, own_server.url, stop_watch_s=stop_watch_s) as pod:
        pod.until_registered()
        with Lookups(own_server.url) as lookups:
            lookups.until_served(0.0)
            missed, count = lookups.missed, lookups.count
            for _ in range(ROUNDS):
                pod.restart_agent()
            say(f"restart, watch {stop_watch_s:g} s: {ROUNDS} rounds, {lookups.count - count} lookups")
            assert lookups.missed == missed
        kinds = [change.kind for change in pod.changes()]
    assert kinds == [ChangeKind.TOPICS, *[ChangeKind.UP] * (ROUNDS + 1)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [f"systemd, {name}" for name in SYSTEMD] + [f"Kubernetes, {name}" for name in KUBERNETES]
)
def test_the_broker_is_out_at_its_end_in_every_round(
    tmp_path: Path, own_server: EmbeddedServer, name: str
) -> None:
    manager, _, which = name.partition(", ")
    order = (SYSTEMD if manager == "systemd" else KUBERNETES)[which]
    delays_s = []
    pod = Pod(tmp_path, own_server.url, ends_in_s=order.ends_in_s, stop_watch_s=order.stop_watch_s)
    with pod, Lookups(own_server.url) as lookups:
        for number in range(ROUNDS):
            if number:
                pod.start()
            lookups.until_served(lookups.last_missed_s)
            delays_s.append(pod.out_after_s(order.told, lookups))
    say(figures(name, delays_s))
    assert statistics.median(delays_s) < AT_MOST_S
