"""Deliberate faults of clients that ask at the wrong moment, give up, fork, or begin after a loss."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.mutant import Edit, Mutant

ASKERS: Final = (
    Mutant(
        "child-waits-for-its-parent",
        "The fork of a client waits for the answer to what its parent asked.",
        ("fork-and-ask",),
        (
            Edit(
                "client/locked_cache.py",
                "        self.flights = Flights()\n        self._events.begin_copy()\n",
                "        self._events.begin_copy()\n",
            ),
        ),
    ),
    Mutant(
        "fork-keeps-views",
        "The fork of a client goes on with the queues of before, and never follows the registry.",
        ("fork-and-ask",),
        (
            Edit(
                "client/routes.py",
                "        self.views.clear()\n        self.routes.clear()\n        self._rings.clear()\n",
                "        self.routes.clear()\n        self._rings.clear()\n",
            ),
        ),
    ),
    Mutant(
        "borrowers-keep-their-view",
        "Topics to which the default topic lends its brokers go on with those of before a change.",
        ("fork-and-ask",),
        (Edit("client/routes.py", "if self._config.default_topic in topics:", "if not topics:"),),
    ),
    Mutant(
        "cancelled-is-an-answer",
        "Who waits for the lookup of another, which is cancelled, takes the topic for one that nobody has.",
        ("ask-without-store",),
        (Edit("client/flights.py", "flight.set_result(False)", "flight.set_result(True)"),),
    ),
    Mutant(
        "cancelled-lookup-flies-on",
        "Who asks for a topic whose lookup in a task was cancelled waits for ever.",
        ("ask-without-store",),
        (
            Edit(
                "client/flights.py",
                "            await look()\n        except BaseException as error:\n",
                "            await look()\n        except Exception as error:\n",
            ),
        ),
    ),
    Mutant(
        "snapshot-without-its-place",
        "A client that begins with its snapshot does not notice what the store has lost since.",
        ("begin-after-loss",),
        (Edit("client/cache_follower.py", "self._stream.id = found.position", "self._stream.id = None"),),
    ),
    Mutant(
        "cancelled-for-all",
        "Who waits for the lookup of a task that is cancelled is cancelled, too.",
        ("ask-without-store",),
        (
            Edit(
                "client/flights.py",
                "        elif isinstance(error, Exception):\n            flight.set_exception(error)\n",
                "        elif error:\n            flight.set_exception(error)\n",
            ),
        ),
    ),
    Mutant(
        "first-look-believed",
        "A client believes what a look lacks before it has read whether the store has lost changes.",
        ("ask-after-loss",) * 2,
        (Edit("client/health.py", "return not (is_second", "return False and (is_second"),),
    ),
    Mutant(
        "holds-on-to-nothing",
        "A follower that has found a stream without entries believes the first one that it reads then.",
        ("delete-stream", "begin-after-loss", "ask-after-loss") * 2,
        (
            Edit(
                "registry/change_stream/core.py",
                "        elif before == ORIGIN and (self._unsure or page.position != ORIGIN):\n",
                "        elif False and before == ORIGIN and (self._unsure or page.position != ORIGIN):\n",
            ),
        ),
    ),
    Mutant(
        "confirmed-by-nothing",
        "A client that finds a stream without entries again takes it that nothing was missed.",
        ("change-without-place",) * 2,
        (
            Edit(
                "client/cache_follower.py",
                "if page.corrupt or (has_no_hold and self._stream.must_read):",
                "if page.corrupt:",
            ),
        ),
    ),
    Mutant(
        "sure-of-nothing",
        "A follower that finds a stream without entries again takes it that nothing was missed.",
        ("change-without-place",) * 2,
        (
            Edit(
                "registry/change_stream/core.py",
                "before == ORIGIN and (self._unsure or page.position != ORIGIN)",
                "before == ORIGIN and page.position != ORIGIN",
            ),
        ),
    ),
    Mutant(
        "heartbeats-list-no-deadline",
        "A heartbeat does not list the deadline of its lease: where the deadlines were lost, they stay so.",
        ("lost-deadlines",),
        (Edit("registry/lua/heartbeat.lua", "attempt('zset', 'ZADD', KEYS[3], ends_ms, ARGV[5])\n", ""),),
    ),
    Mutant(
        "lifts-before-it-withdraws",
        "A drain gives the write permission back before the broker is out.",
        ("drain",) * 2,
        (
            Edit(
                "broker_agent/planner/schedule.py",
                "        withdrawn = self._intent.to_withdraw()\n",
                "        if self._intent.wiped:\n"
                "            return SetWritePerm(self._intent.wiped, allowed=True)\n"
                "        withdrawn = self._intent.to_withdraw()\n",
            ),
        ),
    ),
    Mutant(
        "cut-frames-keep-their-room",
        "A large frame whose connection ends before its last byte keeps its room at a front.",
        ("hang-up-in-a-frame",) * 2,
        (
            Edit(
                "nameserver/server/peer_connection.py",
                "        self._context.room.forget(self._have_room)\n        self._frame_room_bytes = 0\n",
                "        self._context.room.forget(self._have_room)\n",
            ),
        ),
    ),
    Mutant(
        "well-again-untold",
        "A follower that began anew while a key was corrupt does not look at it again.",
        ("corrupt-and-trim",),
        (
            Edit(
                "registry/change_stream/core.py",
                "        self._corrupt = _corrupt_in(table)\n",
                "        self._corrupt = frozenset()\n",
            ),
        ),
    ),
    Mutant(
        "waits-beyond-its-deadline",
        "A thread waits for the store's answer longer than its attempts may last.",
        ("try-without-store",),
        (
            Edit(
                "client/flights.py",
                "flight.exception(None if until == inf else until - monotonic())",
                "flight.exception()",
            ),
        ),
    ),
    Mutant(
        "believes-whom-nobody-names",
        "A client that reads at replicas takes any primary for that of the registry.",
        ("replica-promoted",),
        (
            Edit(
                "registry/connection/reading.py",
                "        if address != self._primary:\n",
                "        if False and address != self._primary:\n",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "failed-lookup-stays",
        "A lookup that has failed is an answer for all who ask for that topic later.",
        ("ask-without-store",) * 2,
        (
            Edit(
                "client/flights.py",
                "_, flight = self._flying.pop(topic)",
                "_, flight = self._flying.pop(topic) if error is None else self._flying[topic]",
            ),
        ),
    ),
    Mutant(
        "lost-feed-guards-nothing",
        "A client that lost its place in the stream believes what looks lack as if it had not.",
        ("flushall", "begin-after-loss", "ask-after-loss"),
        (
            Edit(
                "client/cache.py",
                "        if self.table.alive:\n            self.losses.changes_lost(now)\n",
                "",
            ),
        ),
    ),
)
