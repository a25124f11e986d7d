"""Deliberate faults of the product that need a situation of their own to be seen."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.mutant import Edit, Mutant

SELDOM: Final = (
    Mutant(
        "rows-unlooked",
        "A registration takes the topics of the stored table for routed, and does not look at the index.",
        ("lost-route",),
        (
            Edit(
                "registry/plans/table.py",
                "if index is not None and codec.encode_row(broker, config) in index.split(",
                "if index is None or index.split(",
            ),
        ),
    ),
    Mutant(
        "claims-although-out",
        "A claim is not refused for a broker that an operator keeps out.",
        ("drain",) * 4,
        (Edit("registry/lua/claim.lua", "if kept_out == ARGV[4] and", "if false and"),),
    ),
    Mutant(
        "wall-clock",
        "An agent plans by the time of day.",
        ("clock-behind",) * 4,
        (
            Edit(
                "broker_agent/agent.py",
                "        clock = asyncio.get_running_loop().time\n",
                "        import time\n\n        clock = time.time\n",
            ),
            Edit(
                "broker_agent/agent.py",
                "async with asyncio.timeout_at(self._wake_at_s):",
                "async with asyncio.timeout(self._wake_at_s - __import__('time').time()):",
            ),
        ),
    ),
    Mutant(
        "sweeps-late",
        "The sweeper sleeps until its lease has to be renewed, also when another lease ends before.",
        ("kill-host", "kill-agent", "pause-agent"),
        (
            Edit(
                "registry/sweep_policy.py",
                "return min(max(sweep.wait_s, _SHORTEST_S), longest_s)",
                "return longest_s",
            ),
        ),
    ),
    Mutant(
        "isolated-for-ever",
        "Nobody looks again when the isolation of a broker is over.",
        ("pause-broker-and-rest",),
        (
            Edit(
                "client/faults/memory.py",
                "self.valid_until = min(changes_at.values(), default=inf)",
                "self.valid_until = inf",
            ),
        ),
    ),
    Mutant(
        "guards-for-ever",
        "A client never believes a loss of most brokers, however long it lasts.",
        ("cut-owners-for-long",),
        (
            Edit(
                "client/health.py",
                "elif lost and now >= self.guarded_until:",
                "elif False and lost and now >= self.guarded_until:",
            ),
            Edit("client/health.py", " and now < self.guarded_until\n", "\n"),
        ),
    ),
    Mutant(
        "wipes-lifted",
        "An agent takes the write permission that an operator took for its own to give back.",
        ("drain-wiped",) * 2,
        (
            Edit(
                "broker_agent/planner/planner.py",
                'self._intent.write_perm_taken(call.broker_name if changed else "", now)',
                "self._intent.write_perm_taken(call.broker_name, now)",
            ),
        ),
    ),
    Mutant(
        "foreign-is-no-loss",
        "A reader of the stream goes on at its place after something else stood there for a while.",
        ("corrupt-stream",) * 2,
        (
            Edit(
                "registry/change_stream/core.py",
                "if is_foreign and self._stream.id is not None:",
                "if is_foreign and self._stream.id is None:",
            ),
        ),
    ),
    Mutant(
        "snapshots-in-place",
        "A client writes over the snapshot that it has, instead of putting a new one in its place.",
        ("snapshot-disk-full",),
        (
            Edit(
                "client/snapshot.py",
                "            write(self._path, encode(",
                "            self._path.write_bytes(encode(",
            ),
        ),
    ),
    Mutant(
        "goodbyes-late",
        "What a broker says late as it ends holds for what it has registered since, too.",
        ("late-goodbye",) * 2,
        (
            Edit(
                "registry/lua/release.lua",
                "local is_older = why == 'goodbye' and (not newest_us or not began_us or "
                "tonumber(began_us) <= tonumber(newest_us))",
                "local is_older = why == 'goodbye'",
            ),
        ),
    ),
    Mutant(
        "restored-although-out",
        "A front that waits for the store registers brokers again that were taken out.",
        ("pause-broker-slow-fronts",) * 2,
        (
            Edit(
                "nameserver/registrar.py",
                "if known is None or not known.said or known.is_out or not is_there:",
                "if known is None or not known.said or not is_there:",
            ),
        ),
    ),
    Mutant(
        "hangs-unfound",
        "No front takes out a broker that does not answer.",
        ("pause-broker-slow-fronts",) * 2,
        (
            Edit(
                "nameserver/prober.py",
                "if one.is_gone and one.out_since_s is None:",
                "if one.is_gone and one.out_since_s is not None:",
            ),
        ),
    ),
    Mutant(
        "answered-unread",
        "A front answers a registration before its own answers have it.",
        ("deaf-fronts",) * 2,
        (
            Edit(
                "nameserver/registrar.py",
                "(await asyncio.gather(vouching, self._settled()))[0] if done else await vouching",
                "await vouching",
            ),
        ),
    ),
    Mutant(
        "wipes-unlooked",
        "A route does not say that the write permission of a broker was taken.",
        ("drain-wiped",) * 2,
        (
            Edit(
                "registry/plans/routes.py",
                "if broker.wiped or broker.headless else row",
                "if broker.headless else row",
            ),
        ),
    ),
    Mutant(
        "pauses-not-passed",
        "A broker that has not answered once counts as gone.",
        ("pause-broker-and-rest", "pause-broker-briefly") * 2,
        (
            Edit(
                "remoting/broker/probing.py",
                "        self._unanswered += 1\n        if self._unanswered < self._rules.failures:\n",
                "        self._unanswered += 1\n        if not self._unanswered:\n",
            ),
        ),
    ),
    Mutant(
        "drains-tell-ends",
        "A front that is told to end tells of each connection that it closes as if the broker had gone.",
        ("restart-fronts",) * 2,
        (
            Edit(
                "nameserver/server/peer_connection.py",
                "        if self._context.is_draining:\n            return\n        try:\n",
                "        try:\n",
            ),
        ),
    ),
    Mutant(
        "standbys-wait",
        "A standby waits until the lease of the owner has ended.",
        ("two-agents",) * 3,
        (
            Edit(
                "broker_agent/planner/ownership.py",
                "_ABANDONED_SHARE: Final = 0.25",
                "_ABANDONED_SHARE: Final = 0.0",
            ),
        ),
    ),
    Mutant(
        "tables-uncompared",
        "A heartbeat does not look whether the table is still the owner's.",
        ("delete-topic",) * 4,
        (Edit("registry/lua/heartbeat.lua", "if ARGV[3] ~= '' and token ~= ARGV[3] then", "if false then"),),
    ),
    Mutant(
        "read-at-once",
        "All clients that cannot read a change read everything again at the same time.",
        ("corrupt-entry",) * 3,
        (
            Edit(
                "client/cache.py",
                "min(self.refresh_at, now + self._rng.uniform(0, self._config.jitter_s))",
                "now",
            ),
        ),
    ),
    Mutant(
        "everybody-isolated",
        "A client leaves all brokers of a topic alone if each was bad, and has no queue to choose.",
        ("pause-brokers",) * 3,
        (
            Edit(
                "client/selection/views.py",
                "return min(brokers - 1, max(1, math.floor(share * brokers + _ROUNDING)))",
                "return brokers",
            ),
            Edit(
                "client/selection/views.py",
                "        found = names - blocked - avoid or names - unreachable - avoid\n"
                '        return found or (self._rules == "sharedroutes" and names - avoid) or names\n',
                "        return names - blocked - avoid\n",
            ),
        ),
    ),
    Mutant(
        "changes-remembered",
        "A front that has heard of a change of one topic forgets what else the broker has said.",
        ("flushall",) * 2,
        (
            Edit(
                "nameserver/registrar.py",
                "known.topics = body.topics if is_all else {**known.topics, **body.topics}",
                "known.topics = body.topics",
            ),
        ),
    ),
    Mutant(
        "brought-back-bare",
        "A front that brings a broker back which answers again takes its topics out.",
        ("pause-broker",) * 3,
        (
            Edit(
                "nameserver/prober.py",
                "stays = plans.Rest.STAYS",
                "stays = plans.Rest.GOES_OF_FORMERS",
            ),
        ),
    ),
    Mutant(
        "leases-early",
        "The lease of a broker is given with the first of its topics, and not behind the last.",
        ("flushall", "kill-store-briefly"),
        (
            Edit(
                "registry/plans/table.py",
                "return then(token) if then and chunk is None else None",
                "return then(token) if then else None",
            ),
        ),
    ),
    Mutant(
        "slaves-remove",
        "A slave that stands in for its master takes out the topics that it has not.",
        ("slave-alone",),
        (
            Edit(
                "registry/plans/registration.py",
                "(task.rest is Rest.GOES and (write.is_master or not registration.complete))",
                "task.rest is Rest.GOES",
            ),
        ),
    ),
    Mutant(
        "leases-never-shorter",
        "A heartbeat leaves a lease as it is that ends later, as after the clock of the store went back.",
        ("store-clock-behind",),
        (
            Edit(
                "registry/lua/heartbeat.lua",
                "redis.call('PEXPIREAT', KEYS[2], ends_ms)",
                "redis.call('PEXPIREAT', KEYS[2], ends_ms, 'GT')",
            ),
        ),
    ),
    Mutant(
        "wipes-kept",
        "An agent that has drained its broker does not give the write permission back.",
        ("drain",) * 2,
        (
            Edit(
                "broker_agent/planner/schedule.py",
                "return SetWritePerm(self._intent.wiped, allowed=True) if self._intent.wiped else None",
                "return None",
            ),
        ),
    ),
    Mutant(
        "answers-unheard",
        "A newcomer at another address takes the broker over from an owner that answers.",
        ("second-master",) * 2,
        (
            Edit(
                "broker_agent/planner/ownership.py",
                "if answer is OwnerAnswer.NONE or (answer is OwnerAnswer.NO_WAY and not is_older):",
                "if answer in OwnerAnswer:",
            ),
        ),
    ),
    Mutant(
        "half-a-file-counts",
        "A broker.conf counts as soon as it is seen, also half of it.",
        ("conf-half",) * 2,
        (
            Edit(
                "broker_agent/roles/role.py",
                "is_settled = state == seen and state != settled",
                "is_settled = state != settled",
            ),
        ),
    ),
    Mutant(
        "former-leases-stay",
        "A replica that registers under another id leaves the lease of what it was before.",
        ("slave-promoted",),
        (
            Edit(
                "registry/lua/activate.lua",
                "if not other or address == ARGV[12] then",
                "if not other then",
            ),
        ),
    ),
    Mutant(
        "masters-speak",
        "A slave stands in for its master only as long as the group still says that the master may.",
        ("slave-alone",),
        (
            Edit(
                "registry/plans/routes.py",
                "group.traits.get(min(addresses), _NO_TRAITS)",
                "group.traits.get(MASTER_ID, _NO_TRAITS)",
            ),
        ),
    ),
    Mutant(
        "stand-ins-take",
        "Messages are sent to the slave that stands in for its master.",
        ("slave-alone",),
        (
            Edit(
                "registry/plans/routes.py",
                "if broker.wiped or broker.headless else row",
                "if broker.wiped else row",
            ),
        ),
    ),
    Mutant(
        "fronts-leave-long-leases",
        "A broker that closes its last connection keeps the lease for which fronts have vouched.",
        ("kill-host",) * 4,
        (Edit("registry/lua/release.lua", "    redis.call('PEXPIREAT', KEYS[2], agent_ms)\n", ""),),
    ),
    Mutant(
        "sweepers-looked-for-late",
        "Nobody looks whether the sweeper is still there before a lease is over.",
        ("kill-sweeper",) * 3,
        (
            Edit(
                "registry/sweep_policy.py",
                "self._rng.uniform(0.2, 0.4)",
                "self._rng.uniform(1.0, 1.5)",
            ),
        ),
    ),
    Mutant(
        "changed-unread",
        "A client that hears of a topic that was changed waits for its next look at everything.",
        ("topics-change",) * 4,
        (
            Edit(
                "client/cache.py",
                "for topic in chain(change.added, change.changed, change.removed):",
                "for topic in chain(change.added, change.removed):",
            ),
        ),
    ),
    Mutant(
        "restarts-unforgiven",
        "A client leaves a broker alone for what it did before it was restarted.",
        ("kill-broker-and-rest",) * 3,
        (
            Edit(
                "client/core.py",
                "        self.brokers.restarted(broker_name, now)\n",
                "        pass\n",
            ),
        ),
    ),
    Mutant(
        "comes-again",
        "Each registration tells that the broker has come, also one that changes nothing of that.",
        ("topics-change",),
        (
            Edit(
                "registry/lua/activate.lua",
                "if lease ~= ARGV[4] or known ~= ARGV[7] or moves then",
                "if true then",
            ),
        ),
    ),
    Mutant(
        "deleted-restored",
        "A front that finds the store emptied brings back topics that were deleted.",
        ("delete-for-good",),
        (
            Edit(
                "nameserver/registrar.py",
                "                if name in change.brokers:\n                    gone",
                "                if not name:\n                    gone",
            ),
        ),
    ),
    Mutant(
        "standbys-hurry",
        "A standby takes a lease for abandoned that its owner renews.",
        ("two-agents", "two-agents-in-turn"),
        (
            Edit(
                "broker_agent/planner/ownership.py",
                "_ABANDONED_SHARE: Final = 0.25",
                "_ABANDONED_SHARE: Final = 0.9",
            ),
        ),
    ),
    Mutant(
        "tokens-uncompared",
        "A front takes what it has written once for what the store has, whoever has changed that since.",
        ("delete-topic",) * 3,
        (
            Edit(
                "nameserver/registrar.py",
                "found.holder is Holder.FRONTS and token == found.table_token",
                'found.holder is Holder.FRONTS and token != ""',
            ),
        ),
    ),
    Mutant(
        "failures-unheeded",
        "A client goes on sending to a broker that has failed, until five failures eject it.",
        ("pause-broker",) * 2,
        (
            Edit(
                "client/faults/broker.py",
                "        if for_s:\n            changed = self._isolate(",
                "        if for_s and not failed:\n            changed = self._isolate(",
            ),
        ),
    ),
)
