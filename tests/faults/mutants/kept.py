"""Deliberate faults by which something stays that should end, or is told to nobody."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.mutant import Edit, Mutant

KEPT: Final = (
    Mutant(
        "ended-session-stays",
        "A session whose connection was closed stays, and holds the broker for other fronts.",
        ("leave-fronts", "kill-broker") * 2,
        (
            Edit(
                "registry/lua/release.lua",
                "if #ended > 0 then redis.call('HDEL', KEYS[3], unpack(ended)) end\n",
                "",
            ),
        ),
    ),
    Mutant(
        "repeated-question-old-answer",
        "Who asks a front for a route again in the same bytes gets the answer of before a change.",
        ("kill-broker", "kill-broker-briefly"),
        (
            Edit(
                "nameserver/routes.py",
                "or not self._is_fresh(ready, route) or self._is_stale(route):",
                "or self._is_stale(route):",
            ),
        ),
    ),
    Mutant(
        "guard-stays-up",
        "A client that lost changes, and has read all again, holds back who is lost afterwards, too.",
        ("hosts-in-turn",),
        (
            Edit(
                "client/health.py",
                "        if not self.any_held:\n            self.guarded_until = None\n\n    def _guards",
                "\n    def _guards",
            ),
        ),
    ),
    Mutant(
        "lost-lookup-never-lands",
        "Who asks for a topic that a thread failed to look up waits for ever.",
        ("ask-without-store",),
        (
            Edit(
                "client/flights.py",
                "            failed(error)\n            flight.set_exception(error)\n",
                "            flight.set_exception(error)\n",
            ),
        ),
    ),
    Mutant(
        "lost-lookup-never-lands-in-tasks",
        "Who asks for a topic that a task failed to look up waits for ever.",
        ("ask-without-store",),
        (
            Edit(
                "client/flights.py",
                "await look()\n        except BaseException as error",
                "await look()\n        except asyncio.CancelledError as error",
            ),
        ),
    ),
    Mutant(
        "unreadable-without-reset",
        "A follower passes over what it cannot read in the stream, and tells nobody.",
        ("corrupt-entry",) * 2,
        (
            Edit(
                "registry/change_stream/core.py",
                "        elif page.corrupt:\n            self._pass_over(page, now)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "questions-go-on",
        "A front goes on asking brokers that have gone, or that another front asks now.",
        ("asked-by-one",),
        (Edit("nameserver/prober.py", "self._asked.pop(key).task.cancel()", "self._asked.pop(key)"),),
    ),
    Mutant(
        "half-is-mass",
        "A client does not believe that half of its brokers are lost.",
        ("hosts-in-turn",),
        (
            Edit(
                "client/health.py",
                "if lost <= MASS_LOSS_SHARE * known:",
                "if not lost or lost < MASS_LOSS_SHARE * known:",
            ),
        ),
    ),
    Mutant(
        "hang-forgotten-by-reload",
        "An agent that looks at its broker anew forgets that it has ever answered.",
        ("pause-broker-reload",),
        (
            Edit(
                "broker_agent/broker_watch.py",
                "self._probing = probing = Probing(rules, speaks=self._probing.speaks)",
                "self._probing = probing = Probing(rules)",
            ),
        ),
    ),
    Mutant(
        "lists-outlive-changes",
        "What a front lists stays for as long as it is kept, whatever has changed.",
        ("kill-broker", "kill-broker-briefly"),
        (Edit("nameserver/front.py", "            self._listings.changed(change)\n", ""),),
    ),
    Mutant(
        "sessions-without-end",
        "The sessions of a broker have no TTL.",
        ("kill-fronts", "kill-host"),
        (
            Edit(
                "registry/lua/vouch.lua",
                "redis.call('PEXPIREAT', KEYS[3], ends_ms) -- a heartbeat that names no session",
                "-- a heartbeat that names no session",
            ),
        ),
    ),
    Mutant(
        "slave-deaf-to-its-master",
        "The agent of a slave does not ask for its master when one comes.",
        ("slave-rejoined",),
        (Edit("broker_agent/roles/master.py", "self._ask.set, (DOWN, UP))", "self._ask.set, (DOWN,))"),),
    ),
    Mutant(
        "bell-keeps-its-connection",
        "A subscription that is given up keeps its connection of the pool.",
        ("bells-cut",),
        (
            Edit(
                "registry/connection/links_async.py",
                " is gone already\n                await close_fully(pubsub)\n",
                " is gone already\n                pass\n",
            ),
        ),
    ),
)
