"""Deliberate faults of fronts: whom they bring back, what they read, whom they let wait."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.mutant import Edit, Mutant

AT_FRONTS: Final = (
    Mutant(
        "woken-waits-to-register",
        "A broker that hung and answers again is not brought back by the front that took it out.",
        ("pause-broker-and-wake",),
        (
            Edit(
                "nameserver/prober.py",
                "one.out_since_s is not None and one.probing.alive:",
                "one.out_since_s is not None and one.probing.alive is None:",
            ),
        ),
    ),
    Mutant(
        "end-after-request-untold",
        "The end of a connection is not told if a request of it was under way.",
        ("die-while-asking",),
        (
            Edit(
                "nameserver/server/peer_connection.py",
                "            self._release(_FULL)\n        self._settle()\n",
                "            self._release(_FULL)\n",
            ),
        ),
    ),
    Mutant(
        "vouch-forgets-agent",
        "A front that begins to vouch for a broker takes its agent for gone, and takes the broker over.",
        ("leave-fronts-to-agent",),
        (
            Edit(
                "registry/lua/vouch.lua",
                "    agent_ms = lease_ends_ms\n    redis.call('HSET', KEYS[1], 'agent:' .. id, agent_ms)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "orders-unread-after-loss",
        "A front that begins, or has lost changes, does not read the order of topics.",
        ("order-topic-restarted",),
        (
            Edit(
                "nameserver/front.py",
                "        if change is None:\n            await self._read_order_configs()\n",
                "        if change is None:\n",
            ),
        ),
    ),
    Mutant(
        "full-for-ever",
        "A connection to a front on which 64 requests waited for the store is not read from any more.",
        ("crowd-at-a-front",),
        (
            Edit(
                "nameserver/server/peer_connection.py",
                "            self._release(_FULL)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "elected-for-ever",
        "The front that asks brokers whether they live is the elected one also when it has died.",
        ("kill-front", "pause-broker"),
        (
            Edit(
                "registry/lua/front.lua",
                "redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])",
                "redis.call('SET', KEYS[2], ARGV[1])",
            ),
        ),
    ),
    Mutant(
        "silent-peers-keep-their-place",
        "A connection that ends without a byte counts for ever among those of a front.",
        ("silent-at-a-front",),
        (
            Edit(
                "nameserver/server/listener.py",
                "                if place is not None:\n                    place.free()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "connected-when-told",
        "A connection that the store had lost counts from when a front tells of it again.",
        ("die-half-open",),
        (Edit("registry/lua/vouch.lua", "clock_us() - 1000 * ARGV[5]", "clock_us()"),),
    ),
)
