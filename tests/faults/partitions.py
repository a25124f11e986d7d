"""What happens to an agent that is cut off from the store, for one kind of outage after another."""

from __future__ import annotations

from typing import Final

from tests.faults.plant import LEASE_TTL_S, Plant
from tests.proxy import OUTAGES, FaultyProxy

FENCED: Final = "another agent has taken the broker over: on standby until it ends"
REGISTERED: Final = "registered: "
AGAIN: Final = "works again, after"

SILENT: Final = ("refused", "hanging", "half-open", "requests lost", "cut in a reply")
"""Outages in which no request arrives: the lease ends."""

ARRIVING: Final = tuple(name for name in OUTAGES if name not in SILENT)
"""Outages in which requests arrive, and no reply does in time: the lease may go on."""


def cut_off_and_come_back(plant: Plant, outage: str) -> None:
    """Cut the owner off until its standby has the broker; it must not take it back, nor write any more."""
    standby = plant.agent("standby")
    before = plant.until_served()
    with FaultyProxy(plant.port) as proxy:
        owner = plant.agent("owner", proxy.url)  # who starts takes over
        owned = plant.until_owned_anew(before)
        owner.until_said(REGISTERED)
        standby.until_said(FENCED)
        with OUTAGES[outage](proxy):
            plant.rewrite_topics("payments")  # while it is cut off it has something to write, too
            taken_over = plant.until_owned_anew(owned)
            plant.until_served()
        owner.until_said(FENCED)
        assert plant.until_settled().epoch == taken_over.epoch
        plant.until_all_say_so()
        standby.kill()
        plant.until_owned_anew(taken_over)
        plant.until_served()
        owner.kill()


def cut_off_without_standby(plant: Plant, outage: str) -> None:
    """Cut the only agent off until its lease has ended; it comes back with what has changed meanwhile."""
    with FaultyProxy(plant.port) as proxy:
        agent = plant.agent("agent", proxy.url)
        plant.until_served()
        with OUTAGES[outage](proxy):
            plant.until_gone()
            plant.rewrite_topics("payments")
        plant.until_served()
        agent.until_said(AGAIN)
        agent.kill()


def misunderstood(plant: Plant, outage: str) -> None:
    """Let no reply reach either agent in time for longer than a lease; then one of them owns the broker."""
    with FaultyProxy(plant.port) as proxy:
        first, second = plant.agent("first", proxy.url), plant.agent("second", proxy.url)
        plant.until_served()
        with OUTAGES[outage](proxy):
            plant.rewrite_topics("payments")
            plant.until_passed(2 * LEASE_TTL_S)
        plant.until_served()
        plant.until_settled()
        plant.until_all_say_so()
        first.kill()
        plant.until_served()
        second.kill()
        plant.until_gone()
