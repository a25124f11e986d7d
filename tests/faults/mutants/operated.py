"""Deliberate faults of the product that show when operators act, or when two things come together."""

from __future__ import annotations

from typing import Final

from tests.faults.mutants.mutant import Edit, Mutant

OPERATED: Final = (
    Mutant(
        "wipes-undone",
        "A broker that registers anew has the write permission again that an operator took.",
        ("drain-wiped",) * 2,
        (
            Edit(
                "registry/lua/activate.lua",
                "redis.call('HSET', KEYS[1], member, ARGV[7], 'cluster', ARGV[8])\n",
                "redis.call('HSET', KEYS[1], member, ARGV[7], 'cluster', ARGV[8])\n"
                "if lease ~= ARGV[4] then redis.call('HDEL', KEYS[1], 'wiped') end\n",
            ),
        ),
    ),
    Mutant(
        "leases-left-as-they-are",
        "An agent that is told to end does not renew the lease that it leaves to the next one.",
        ("restart-agent",) * 2,
        (
            Edit(
                "broker_agent/planner/planner.py",
                "elif lease.is_held and (lease.confirmed_s is None or "
                "lease.confirmed_s < intent.hands_over_at_s):",
                "elif lease.is_held and lease.confirmed_s is None:",
            ),
        ),
    ),
    Mutant(
        "roles-unchanged",
        "An agent takes a replica with another id at the same address for the one that it has registered.",
        ("slave-promoted",) * 4,
        (
            Edit(
                "broker_agent/planner/ownership.py",
                "return found if found is not None and found.broker == broker else None",
                "return found if found and broker and found.broker.address == broker.address else None",
            ),
        ),
    ),
    Mutant(
        "rolled-back-unseen",
        "A heartbeat does not see that a failover has lost what its owner wrote last.",
        ("lose-writes",) * 3,
        (
            Edit(
                "registry/lua/heartbeat.lua",
                "if ARGV[3] ~= '' and token ~= ARGV[3] then",
                "if ARGV[3] ~= '' and string.match(token or '', '^%d+') ~= "
                "string.match(ARGV[3], '^%d+') then",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "sentinels-unasked",
        "Sentinels are asked each minute, and not each second, whether there is another primary.",
        ("switch-primary",) * 2,
        (
            Edit(
                "registry/connection/discovery.py",
                "self._ask_at = now + CONFIRM_S",
                "self._ask_at = now + 60 * CONFIRM_S",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "fallen-back-and-stays",
        "A client that reads at the primary for want of a replica asks nobody whether it still is one.",
        ("lose-writes", "switch-primary") * 2,
        (
            Edit(
                "registry/connection/reading.py",
                "return self.endpoint.mode is Mode.SENTINEL and self._at_primary",
                "return False",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "looked-once",
        "A front does not look again whether a connection that held a broker was that of a dead front.",
        ("leave-with-a-front",) * 2,
        (Edit("nameserver/sessions.py", "_LOOKS: Final = 2", "_LOOKS: Final = 1"),),
    ),
    Mutant(
        "orders-untold",
        "What an operator says of the order of a topic is written, and nobody is told.",
        ("order-topic",) * 2,
        (Edit("registry/lua/kv_put.lua", "announce(KEYS[3], ARGV[5], ARGV[4])\n", ""),),
    ),
    Mutant(
        "unlisted-unswept",
        "Nobody looks for leases that have ended while something else stands in the place of the deadlines.",
        ("corrupt-deadlines",) * 2,
        (
            Edit(
                "registry/plans/expiry.py",
                "            yield from _announce_unlisted(config, expired, corrupt)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "unreachable-for-ever",
        "A broker that has refused a message once is left alone until it has taken another one.",
        ("refuse-and-rest",) * 2,
        (
            Edit(
                "client/faults/broker.py",
                'if self._config.rules == "rocketmq-5":\n            until = inf',
                'if self._config.rules != "rocketmq-4":\n            until = inf',
            ),
        ),
    ),
    Mutant(
        "behind-for-a-second",
        "A client believes a replica that does not have the client's place when it has waited for a second.",
        ("replica-behind",) * 2,
        (
            Edit(
                "registry/connection/reading.py",
                "        self.doubt()\n        return 0.0\n",
                "        return None\n",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "others-forgotten",
        "A front to which a broker tells a change of one topic first takes that for all that the broker has.",
        ("flushall",) * 3,
        (
            Edit(
                "nameserver/registrar.py",
                "            body = replace(body, topics={**known.topics, **body.topics})\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "unlisted-for-good",
        "Brokers and topics that are not listed any more are left so.",
        ("lost-listing",),
        (
            Edit(
                "registry/lua/_common.lua",
                "if attempt('hash', 'HEXISTS', brokers, name) == 0 then",
                "if false then",
            ),
            Edit("registry/lua/_common.lua", "  return not is_lost\n", "  return true\n"),
            Edit("registry/lua/_common.lua", "  if is_lost then\n", "  if false then\n"),
        ),
    ),
    Mutant(
        "looked-past",
        "A client that has lost changes does not take in what the stream still tells.",
        ("end-unheard",) * 2,
        (
            Edit(
                "client/cache_follower.py",
                "known.lose(page.changes, now)",
                "known.lose((), now)",
            ),
        ),
    ),
    Mutant(
        "one-stops-all",
        "A lease whose group is corrupt cannot be ended, and keeps the sweep from all that are due besides.",
        ("corrupt-group",) * 3,
        (
            Edit(
                "registry/plans/expiry.py",
                "        except CorruptData as error:\n            corrupt.append(error)\n",
                "        except KeyError:\n            pass\n",
            ),
        ),
    ),
    Mutant(
        "one-unasks-all",
        "A group that is corrupt keeps the prober from asking brokers of other ones.",
        ("corrupt-group",) * 3,
        (
            Edit(
                "registry/plans/fronts.py",
                "with suppress(CorruptData):  # who repairs the registry is told",
                "with suppress(KeyError):",
            ),
        ),
    ),
    Mutant(
        "admits-always",
        "An agent registers its broker although an operator keeps it out, also when it did so before.",
        ("drain",) * 4,
        (
            Edit(
                "broker_agent/planner/schedule.py",
                "take_over, admit, gone = not lease.yields, intent.admit, self._other.gone",
                "take_over, admit, gone = not lease.yields, True, self._other.gone",
            ),
        ),
    ),
    Mutant(
        "wipes-unsaved",
        "A client that begins with its snapshot does not know whose write permission was taken.",
        ("begin-without-store",) * 2,
        (Edit("client/snapshot.py", '            broker.get("wiped") is True,\n', ""),),
    ),
    Mutant(
        "primary-kept",
        "A client that fell back to the primary stays there when replicas are back.",
        ("replicas-cut",),
        (
            Edit(
                "registry/connection/reading.py",
                "            if now < self._back_at:\n",
                "            if now < self._back_at or self._back_at:\n",
            ),
        ),
        "sentinel",
    ),
    Mutant(
        "anew-and-untold",
        "A doorbell that is connected anew tells slaves nothing.",
        ("slave-alone",) * 3,
        (
            Edit(
                "broker_agent/doorbells.py",
                "        return message is not None or UP in kinds\n",
                "        return False\n",
            ),
        ),
    ),
    Mutant(
        "absent-agents-say",
        "A front leaves the table of a broker to its agent, also when that has ended.",
        ("agent-leaves-fronts",),
        (
            Edit(
                "registry/lua/vouch.lua",
                "has = tonumber(agent_ms or '0') > tonumber(deadline_ms(0)) and 'agent' or 'gone'",
                "has = 'agent'",
            ),
        ),
    ),
    Mutant(
        "unswept-when-full",
        "Who sweeps cannot renew its lease at a server that is full.",
        ("full",),
        (
            Edit(
                "registry/lua/sweep.lua",
                "  redis.call('DEL', KEYS[1]) -- a server that is full lets a script go on that has written, "
                "and SET is no exception\n",
                "",
            ),
        ),
    ),
    Mutant(
        "proves-what-is-held",
        "A client that holds brokers back looks as seldom whether they are there as one that misses none.",
        ("cut-owners-for-long",),
        (
            Edit(
                "client/cache.py",
                "if not self.losses.any_held:\n            due_at",
                "if self.table:\n            due_at",
            ),
        ),
    ),
    Mutant(
        "wipes-unheard",
        "An agent that heard no answer when it took the write permission does not give it back.",
        ("drain",) * 3,
        (
            Edit(
                "broker_agent/planner/planner.py",
                "                self._intent.wiped = call.broker_name\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "owners-unasked",
        "A front takes a broker over that registers elsewhere, without asking whether the owner lives.",
        ("second-master",) * 3,
        (
            Edit(
                "nameserver/registrar.py",
                "                if found.answer is not OwnerAnswer.NONE:\n                    raise\n",
                "",
            ),
        ),
    ),
    Mutant(
        "behind-asked-again",
        "A client asks the replica that is behind again and again, and never the primary.",
        ("replica-behind",) * 2,
        (
            Edit(
                "registry/connection/reading.py",
                "self._rests_until[self.current] = now + _REST_S",
                "pass",
            ),
        ),
        store="sentinel",
    ),
    Mutant(
        "stand-ins-unsaved",
        "A client that begins with its snapshot does not know which slave may stand in for its master.",
        ("begin-without-store",) * 3,
        (Edit("client/snapshot.py", '"actingMaster": broker.enable_acting_master,', ""),),
    ),
    Mutant(
        "others-fill-the-cap",
        "Of the brokers of a topic that fail, fewer are left alone while those of others fail, too.",
        ("pause-broker-and-rest",) * 3,
        (
            Edit(
                "client/selection/views.py",
                "islice((name for name in verdict.blocked if name in names), limit)",
                "name for name in islice(verdict.blocked, limit) if name in names",
            ),
        ),
    ),
    Mutant(
        "a-part-is-all",
        "A client that lost changes lets a master go whose slave is back before it.",
        ("flushall",) * 3,
        (
            Edit(
                "client/routes.py",
                "**found}), kept.keys() - found.keys()",
                "**found}), set() if found else {*kept}",
            ),
        ),
    ),
    Mutant(
        "young-though-lost",
        "What a client knows counts as confirmed although it has lost changes, and not read it since.",
        ("change-unheard",) * 2,
        (
            Edit(
                "client/health.py",
                "        self._all_read = False\n        self._tell(FeedLost(position))",
                "        self._tell(FeedLost(position))",
            ),
        ),
    ),
    Mutant(
        "nonsense-is-empty",
        "A topics.json in which no topic makes sense is a broker that has none.",
        ("topics-invalid",) * 3,
        (
            Edit(
                "broker_agent/rocketmq/topics.py",
                "if self.problems or not self._topics:",
                "if self.problems:",
            ),
        ),
    ),
    Mutant(
        "silences-add-up",
        "A broker counts as gone when it has not answered three times in its life.",
        ("pause-broker-briefly",) * 2,
        (
            Edit(
                "remoting/broker/probing.py",
                "        self.speaks = True\n        self._unanswered = 0\n",
                "        self.speaks = True\n",
            ),
        ),
    ),
)
