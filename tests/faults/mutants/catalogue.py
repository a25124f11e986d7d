"""Deliberate faults of the product, each an edit of its source, and the faults of the matrix that show it."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.askers import ASKERS
from tests.faults.mutants.beside import BESIDE
from tests.faults.mutants.fronts import AT_FRONTS
from tests.faults.mutants.kept import KEPT
from tests.faults.mutants.links import LINKS
from tests.faults.mutants.mutant import Edit, Mutant
from tests.faults.mutants.operated import OPERATED
from tests.faults.mutants.seldom import SELDOM

_HOSTS: Final = ("kill-host",) * 2
"""One of the hosts is alone with its agent: its lease ends by itself."""

_LUA: Final = "registry/lua"
_STREAM: Final = "registry/change_stream"

_ALL: Final = (
    Mutant(
        "expire-silently",
        "A lease that ends is taken out, and nobody is told.",
        _HOSTS,
        (Edit(f"{_LUA}/expire.lua", "announce(KEYS[4], ARGV[5], ARGV[4])\n", ""),),
    ),
    Mutant(
        "no-sweep",
        "The sweep finds no lease that has ended.",
        _HOSTS,
        (Edit(f"{_LUA}/sweep.lua", "local due = attempt(", "local due = nil and attempt("),),
    ),
    Mutant(
        "deadlines-not-renewed",
        "A heartbeat leaves the deadline of its lease as it was, and the sweep then forgets it.",
        _HOSTS,
        (
            Edit(f"{_LUA}/heartbeat.lua", "attempt('zset', 'ZADD', KEYS[3], ends_ms, ARGV[5])\n", ""),
            Edit(
                f"{_LUA}/expire.lua",
                "  attempt('zset', 'ZADD', KEYS[3], deadline_ms(left_ms), ARGV[3])\n",
                "",
            ),
        ),
    ),
    Mutant(
        "loss-unnoticed",
        "A reader of the stream whose place was trimmed goes on as if nothing were missing.",
        ("trim-stream", "flushall"),
        (Edit("registry/plans/changes.py", "lost=wanted.after != ORIGIN and not at_place", "lost=False"),),
    ),
    Mutant(
        "tail-repeated",
        "A reader of the stream is told the entry at its place again.",
        ("client-kill", "topics-grow") * 2,
        (
            Edit(
                "registry/plans/changes.py",
                "after = entries[1:] if at_place else entries[: wanted.limit]",
                "after = entries[: wanted.limit]",
            ),
        ),
    ),
    Mutant(
        "previous-unchecked",
        "A doorbell is believed whatever the change before it was.",
        ("kill-host", "flushall") * 3,
        (
            Edit(
                f"{_STREAM}/stream.py",
                "if previous != self.id or not record:",
                "if not record:",
            ),
        ),
    ),
    Mutant(
        "resets-untold",
        "A follower that begins anew tells of no Reset.",
        ("flushall", "trim-stream"),
        (
            Edit(
                f"{_STREAM}/core.py",
                "self._items.append(Reset(self._place, table, self._reason))",
                "self._reason is not ResetReason.LOST and self._items.append("
                "Reset(self._place, table, self._reason))",
            ),
        ),
    ),
    Mutant(
        "leases-unlooked",
        "A lookup takes every broker that was ever registered for alive.",
        ("corrupt-deadlines",),
        (
            Edit(
                "registry/plans/routes.py",
                "        if value is None:\n            continue\n        lease = codec.decode_lease(value)",
                '        lease = codec.decode_lease(value or b"1 127.0.0.1:1")',
            ),
        ),
    ),
    Mutant(
        "rows-cut",
        "A broker that changes a topic takes the rows of others out of the index.",
        ("topics-change",) * 2,
        (
            Edit(
                f"{_LUA}/put_topics.lua",
                "return before .. row .. after, old",
                "return before .. row, old",
            ),
        ),
    ),
    Mutant(
        "foreign-is-missing",
        "A topic whose key holds something else is taken for one that nobody has.",
        ("corrupt-route",) * 2,
        (
            Edit(
                "registry/plans/routes.py",
                'if kind in (b"none", b"string"):  # a string: written since',
                "if kind is not None:",
            ),
        ),
    ),
    Mutant(
        "any-backup-counts",
        "A .bak counts although it is older than what was read before.",
        ("topics-backup-older",) * 2,
        (
            Edit(
                "broker_agent/topic_sources/files.py",
                "return backup if is_newer else None",
                "return backup if is_newer or backup.topics else None",
            ),
        ),
    ),
    Mutant(
        "new-owners-unread",
        "A client that hears of a new owner waits for its next look at the leases.",
        ("kill-broker", "kill-broker-briefly"),
        (
            Edit(
                "client/cache.py",
                "                self._stale_groups[name] = self._number\n                own_word",
                "                if change.kind is ChangeKind.DOWN:\n"
                "                    self._stale_groups[name] = self._number\n"
                "                own_word",
            ),
        ),
    ),
    Mutant(
        "fenced-takes-back",
        "An agent that was fenced takes the live lease of the other one at once.",
        ("two-agents",) * 2,
        (
            Edit(
                f"{_LUA}/claim.lua",
                "local restarted = address == ARGV[4] and ARGV[5] == '1'",
                "local restarted = address == ARGV[4]",
            ),
        ),
    ),
    Mutant(
        "dead-fronts-hold",
        "The connection of a broker to a front that has died holds its lease.",
        ("kill-front", "leave-fronts") * 2,
        (
            Edit(
                f"{_LUA}/release.lua",
                "elseif at == ARGV[2] and lives_ms and tonumber(lives_ms) > now_ms then",
                "elseif at == ARGV[2] then",
            ),
        ),
    ),
    Mutant(
        "guard-off",
        "A client believes at once that all brokers are gone.",
        ("kill-store", "kill-store"),
        (
            Edit(
                "client/health.py",
                "    def _guards(self, known: int, lost: int, now: float) -> bool:\n",
                "    def _guards(self, known: int, lost: int, now: float) -> bool:\n        return False\n",
            ),
            Edit(
                "client/health.py",
                "return not (is_second",
                "return False and (is_second",
            ),
        ),
    ),
    Mutant(
        "heartbeat-unfenced",
        "A heartbeat does not look whether another owner has taken the broker over.",
        ("two-agents-in-turn",) * 2,
        (Edit(f"{_LUA}/heartbeat.lua", "if owner and owner ~= ARGV[2] then", "if false then"),),
    ),
    Mutant(
        "writes-unfenced",
        "Topics are written for whoever asks, with an old epoch and an old table too.",
        ("late-writes",) * 2,
        (
            Edit(f"{_LUA}/put_topics.lua", "if owner ~= ARGV[2] then", "if false then"),
            Edit(f"{_LUA}/put_topics.lua", "if (token or '') ~= ARGV[3] then", "if false then"),
        ),
    ),
    Mutant(
        "writes-of-the-fenced",
        "Topics are written for a former owner, if they go on from the table that there is.",
        ("late-writes-undone",) * 2,
        (Edit(f"{_LUA}/put_topics.lua", "if owner ~= ARGV[2] then", "if false then"),),
    ),
    Mutant(
        "epochs-fall",
        "A newer owner has a lower epoch.",
        ("two-agents-in-turn", "kill-agent"),
        (
            Edit(
                f"{_LUA}/_common.lua",
                "local function newer_epoch(previous)\n  local epoch = clock_us()\n",
                "local function newer_epoch(previous)\n"
                "  local epoch = string.format('%.0f', 4000000000000000 - clock_us())\n"
                "  if true then return epoch end\n",
            ),
        ),
    ),
    Mutant(
        "ends-unheld",
        "A front whose connections are closed ends the lease, although others hold it.",
        ("kill-front", "pause-front"),
        (
            Edit(f"{_LUA}/release.lua", "    held = true\n", ""),
            Edit(f"{_LUA}/release.lua", "if has_agent then", "if false then"),
        ),
    ),
    Mutant(
        "lost-lease-unnoticed",
        "A heartbeat says that all is well when the lease is gone.",
        ("flushall", "delete-lease"),
        (
            Edit(
                f"{_LUA}/heartbeat.lua",
                "string.match(lease, '^%d+') ~= owner then\n  return {'lease'}",
                "string.match(lease, '^%d+') ~= owner then\n  return {'ok'}",
            ),
        ),
    ),
    Mutant(
        "fronts-for-ever",
        "The set of living fronts has no TTL.",
        ("kill-front",),
        (Edit(f"{_LUA}/front.lua", "redis.call('PEXPIRE', KEYS[1], KEEP_MS)\n", ""),),
    ),
    Mutant(
        "snapshot-unread",
        "A client that begins again forgets the snapshot that it has.",
        ("begin-without-store",) * 2,
        (
            Edit(
                "client/cache_follower.py",
                "found = self._known.file.load()",
                "found = self._known.file and None",
            ),
        ),
    ),
    Mutant(
        "snapshots-old",
        "A client writes its snapshot only after it has read everything.",
        ("begin-without-store",) * 3,
        (
            Edit(
                "client/locked_cache.py",
                "            self.routes.change(topics)\n            self.file.something_new()\n",
                "            self.routes.change(topics)\n",
            ),
        ),
    ),
    Mutant(
        "no-retry",
        "A message is given up after its first attempt.",
        ("kill-broker-briefly", "pause-broker", "pause-broker-briefly"),
        (
            Edit(
                "client/attempts/log.py",
                "if len(self._tried) > self._policy.retries:",
                "if self._tried:",
            ),
        ),
    ),
    Mutant(
        "tail-as-if-proven",
        "The tail of the stream is read as seldom as with pulses, although none is heard.",
        ("deaf",) * 4,
        (
            Edit(
                f"{_STREAM}/stream.py",
                "self._tail_at = now + self._tail_s\n        self._read_by",
                "self._tail_at = now + self._proven_tail_s\n        self._read_by",
            ),
        ),
    ),
    Mutant(
        "outage-at-error",
        "A client that does not reach the store logs it at ERROR.",
        ("kill-store-briefly",),
        (
            Edit(
                f"{_STREAM}/core.py",
                '_log.warning("changes wait until the store answers again',
                '_log.error("changes wait until the store answers again',
            ),
        ),
    ),
    Mutant(
        "memory-kept",
        "Each loss of the doorbell keeps some memory for ever.",
        ("reset", "client-kill"),
        (
            Edit(
                f"{_STREAM}/stream.py",
                "        self.must_read = True\n        self.bell.failed(error, now)",
                "        self.must_read = True\n"
                "        self.kept = (getattr(self, 'kept', b''), b'*' * 2**24)\n"
                "        self.bell.failed(error, now)",
            ),
        ),
    ),
    Mutant(
        "ends-unfenced",
        "An owner ends the lease of the one who came after it.",
        ("late-ends",) * 2,
        (
            Edit(
                f"{_LUA}/unregister.lua",
                "if owner ~= ARGV[2] then\n  return {'fenced', owner or '0'}",
                "if not owner then\n  return {'fenced', '0'}",
            ),
        ),
    ),
    Mutant(
        "agents-shorten",
        "An agent that renews a lease ends it sooner than the fronts vouch for the broker.",
        ("agent-leaves-fronts",),
        (
            Edit(
                f"{_LUA}/_common.lua",
                "return tonumber(until_ms) > tonumber(ends_ms) and until_ms or ends_ms",
                "return ends_ms",
            ),
        ),
    ),
    Mutant(
        "epochs-from-one",
        "A store that was emptied counts epochs from one again.",
        ("flushall", "delete-table", "two-agents-in-turn") * 2,
        (
            Edit(
                f"{_LUA}/_common.lua",
                "local function newer_epoch(previous)\n  local epoch = clock_us()\n",
                "local function newer_epoch(previous)\n  local epoch = previous or '1'\n",
            ),
        ),
    ),
    Mutant(
        "deaf-for-good",
        "A doorbell that is silent is not replaced by a new one.",
        ("deaf",),
        (Edit(f"{_STREAM}/stream.py", "return self._unheard >= DEAF_AFTER", "return self._unheard < 0"),),
    ),
    Mutant(
        "entries-passed-over",
        "A client passes over what it cannot read in the stream.",
        ("corrupt-entry",) * 3,
        (
            Edit(
                "client/cache_follower.py",
                "if page.corrupt or (has_no_hold and self._stream.must_read):",
                "if has_no_hold and self._stream.must_read:",
            ),
        ),
    ),
    Mutant(
        "words-unbelieved",
        "A client holds a broker back although its owner said that it ends.",
        ("kill-brokers",) * 3,
        (
            Edit(
                "client/cache.py",
                "own_word = change.kind is ChangeKind.DOWN and change.reason != EXPIRED",
                "own_word = False",
            ),
        ),
    ),
    Mutant(
        "expired-as-withdrawn",
        "The end of a lease by time is told as if its owner had ended it.",
        ("cut-owners",) * 2,
        (
            Edit(
                "registry/plans/expiry.py",
                "        reason=EXPIRED,\n",
                '        reason="its lease has ended",\n',
            ),
        ),
    ),
    Mutant(
        "places-uncompared",
        "A client believes a replica that does not have the client's place in the stream.",
        ("replica-behind",) * 2,
        (
            Edit(
                "registry/connection/reading.py",
                "        has = wanted if last is None else order(last) or (0, 0)\n",
                "        has = wanted\n",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "replicas-stand-still",
        "A client stays at a replica that does not hear its primary.",
        ("replica-stands-still",) * 2,
        (
            Edit(
                "registry/connection/reading.py",
                "elif self._swept and now >= since + self._still_s:",
                "elif self._swept and now < since:",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "restarts-withdraw",
        "An agent that is told to end takes its broker out, which goes on.",
        ("restart-agent", "kill-front", "restart-agent"),
        (
            Edit(
                "broker_agent/planner/planner.py",
                "                self._journal.say(logging.INFO, text)\n            lease.lost()\n",
                "                self._journal.say(logging.INFO, text)\n",
            ),
        ),
    ),
    Mutant(
        "others-unheld",
        "A front whose connections are closed ends the lease that another front holds.",
        ("pause-front", "kill-front", "pause-front"),
        (
            Edit(
                f"{_LUA}/release.lua",
                "if held and (why ~= 'dead' or now_ms - connected_ms < tonumber(ARGV[8])) then",
                "if held and why == 'dead' and now_ms - connected_ms < tonumber(ARGV[8]) then",
            ),
        ),
    ),
)
MUTANTS: Final = {
    mutant.name: mutant for mutant in (*_ALL, *SELDOM, *OPERATED, *LINKS, *KEPT, *ASKERS, *AT_FRONTS, *BESIDE)
}
"""By name. That activate, expire, forget and mend_field compare epochs is in none: it matters for a moment
that no fault hits, and tests/registry has it (test_ownership, test_sweep, test_forget, test_mend_races).
"""
