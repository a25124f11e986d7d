"""Deliberate faults of what speaks for brokers: agents, and what others write of their brokers."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.mutant import Edit, Mutant

BESIDE: Final = (
    Mutant(
        "ended-reader-keeps-its-bell",
        "A reader of the stream that is stopped keeps its subscription, and the connection of that.",
        ("standby-again",),
        (
            Edit(
                "registry/change_stream/follower_async.py",
                "                self.news.notify_all()\n            await self._drop_bell()\n",
                "                self.news.notify_all()\n",
            ),
        ),
    ),
    Mutant(
        "conf-counts-at-once",
        "What broker.conf says of address and id counts although the broker runs with others.",
        ("conf-ahead",),
        (
            Edit(
                "broker_agent/roles/identity.py",
                "if not self._runs or is_same_replica(file.broker, self._broker)",
                "if file or is_same_replica(file.broker, self._broker)",
            ),
        ),
    ),
    Mutant(
        "resumed-stays-out",
        "A broker that an operator has let back is refused when its agent claims it once more.",
        ("drain-wiped", "two-agents"),
        (
            Edit(
                "registry/lua/activate.lua",
                "if kept_out == ARGV[12] then",
                "if false then",
            ),
        ),
    ),
    Mutant(
        "deleted-stays-away",
        "Who has a topic that an operator deletes is not told that its table is another one.",
        ("delete-topic", "delete-topic"),
        (
            Edit(
                "registry/lua/delete_topic.lua",
                "    disown_table(KEYS[i]) -- a topic that its broker still has comes back\n",
                "",
            ),
        ),
    ),
    Mutant(
        "no-heartbeat-while-unwritten",
        "An agent does not renew its lease while the store does not take its new table.",
        ("corrupt-table",),
        (
            Edit(
                "broker_agent/planner/schedule.py",
                "if held is not None and lease.is_held:",
                "if held is not None and lease.is_held and not self.must_write:",
            ),
        ),
    ),
    Mutant(
        "index-row-by-prefix",
        "A broker that registers takes the row of one whose name begins with its own for its own.",
        ("newcomer",),
        (
            Edit(
                "registry/lua/put_topics.lua",
                "local first, mark = broker .. ' ', '\\n' .. broker .. ' '",
                "local first, mark = broker, '\\n' .. broker",
            ),
        ),
    ),
    Mutant(
        "row-of-a-stranger",
        "A client takes the row of a broker that it does not know, and does not read who that is.",
        ("newcomer",),
        (
            Edit(
                "client/cache.py",
                "if known is None or topic in self._dirty or name not in self.table.groups:",
                "if known is None or topic in self._dirty:",
            ),
        ),
    ),
    Mutant(
        "foreign-stream-record-dropped",
        "A client does not take in what a doorbell tells while something else is in the place of the stream.",
        ("corrupt-stream",),
        (
            Edit(
                "client/cache_follower.py",
                "self._known.take(self._stream.unrecorded(message), now)",
                "self._stream.unrecorded(message)",
            ),
        ),
    ),
    Mutant(
        "hints-for-ever",
        "What clients say of whom they cannot reach stays when they say no more.",
        ("forgotten-hint",),
        (
            Edit(
                "registry/lua/hint.lua",
                "  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', last_ms - now_ms))\n",
                "",
            ),
        ),
    ),
    Mutant(
        "held-is-confirmed",
        "A route a part of which is held back counts as confirmed by the answer that lacked it.",
        ("cut-owners-for-long", "cut-owners"),
        (Edit("client/health.py", "        if held:\n            return self._held_since\n", ""),),
    ),
    Mutant(
        "former-role-untold",
        "A replica that registers under another id ends what it was, and nobody is told.",
        ("slave-promoted",) * 3,
        (
            Edit(
                "registry/lua/activate.lua",
                "    if gone == 1 then\n      announce(KEYS[4], ARGV[11], ARGV[FIRST_ARG + 3 * i + 2])",
                "    if gone == 2 then\n      announce(KEYS[4], ARGV[11], ARGV[FIRST_ARG + 3 * i + 2])",
            ),
        ),
    ),
    Mutant(
        "epochs-from-one-when-emptied",
        "A store that was emptied gives epochs again, from one on.",
        ("flushall",),
        (
            Edit(
                "registry/lua/_common.lua",
                "local function newer_epoch(previous)\n  local epoch = clock_us()\n",
                "local function newer_epoch(previous)\n  local epoch = '1'\n",
            ),
        ),
    ),
)
