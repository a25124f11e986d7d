"""Deliberate faults of the product that show only where one way is cut and all others are not."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.mutant import Edit, Mutant

LINKS: Final = (
    Mutant(
        "hints-obeyed",
        "A client leaves a broker alone that it reaches, as one other client could not reach it once.",
        ("link-cut", "link-half-open"),
        (
            Edit("client/brokers.py", "count >= self._config.quorum", "count >= 1"),
            Edit(
                "client/brokers.py", "for name in names if not self._reached(name, now)", "for name in names"
            ),
            Edit("client/brokers.py", "failures_before_hint: int = 3", "failures_before_hint: int = 1"),
        ),
    ),
    Mutant(
        "quick-failures-unheeded",
        "A client goes on sending to a broker that closes its connections at once.",
        ("link-cut", "link-cut-in-replies"),
        (
            Edit(
                "client/attempts/log.py",
                "Result(latency_s, outcome.failed, outcome.reachable, begun.at)",
                "Result(latency_s, outcome.failed and latency_s > 0.5, outcome.reachable, begun.at)",
            ),
        ),
    ),
    Mutant(
        "resets-unheeded",
        "An agent takes a broker for well whose connections end before it has answered.",
        ("agent-cut",) * 2,
        (
            Edit(
                "remoting/broker/liveness.py",
                "probing.is_mute, probing.unanswered(str(error))\n",
                "probing.is_mute, (\n"
                "            probing.unanswered(str(error)) if isinstance(error, BrokerTimeout) else None\n"
                "        )\n",
            ),
        ),
    ),
    Mutant(
        "vouched-unheard",
        "A front vouches for the brokers that it reaches, whether it hears of them or not.",
        ("fronts-half-open",) * 2,
        (
            Edit(
                "nameserver/prober.py",
                "        broker = one.broker\n        if one.is_gone and",
                "        broker = one.broker\n"
                "        if one.probing.alive and one.out_since_s is None:\n"
                '            plan = fronts.vouch(self._store.config, broker, "", anew=False)\n'
                "            await self._store.run(plan)\n"
                "        if one.is_gone and",
            ),
        ),
    ),
    Mutant(
        "fronts-outvote-agents",
        "A front that hears no answer of a broker ends the lease which its agent renews.",
        ("prober-hanging",) * 3,
        (
            Edit(
                "registry/lua/release.lua",
                "local has_agent = not is_joint(joint, owner)",
                "local has_agent = why ~= 'dead' and not is_joint(joint, owner)",
            ),
        ),
    ),
    Mutant(
        "attempt-takes-all",
        "An attempt may take all the time that is left, so that none can follow.",
        ("pause-broker", "link-hanging", "pause-broker"),
        (
            Edit(
                "client/attempts/policy.py",
                "return min(left_s, max(_LEAST_SHARE_S, left_s / min(following + 1, _MOST_SHARES)))",
                "return left_s",
            ),
        ),
    ),
)
