"""What operators ask of fronts: permissions, key-values, settings; and who may ask what, on a real Redis."""

from __future__ import annotations

import redis

from sharedroutes.remoting import (
    RequestCode,
    ResponseCode,
)
from tests.nameserver.rig import BrokerPeer, Peer, records, running
from tests.support import await_until


async def _is(what: object, wanted: object) -> bool:
    assert callable(what)
    return bool(await what() == wanted)


async def test_a_wiped_permission_is_wiped_at_all_fronts_and_survives_registrations(redis_url: str) -> None:
    async with running(redis_url) as one, running(redis_url) as two:
        broker = BrokerPeer()
        await broker.register(one)
        named = {"brokerName": "broker-a"}
        wiped = await Peer(one).ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, named)
        assert wiped.ext_fields == {"wipeTopicCount": "1"}
        broker.version["counter"] = 9
        await broker.register(two)

        async def perms() -> list[int]:
            routes = [await Peer(front).route("orders") for front in (one, two)]
            return [route["queueDatas"][0]["perm"] if route else 0 for route in routes]

        await await_until(lambda: _is(perms, [4, 4]), description="nobody may write")
        added = await Peer(two).ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, named)
        assert added.ext_fields == {"addTopicCount": "1"}
        await await_until(lambda: _is(perms, [6, 6]), description="everybody may write again")
        unknown = await Peer(two).ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "no-such"})
        assert (unknown.code, unknown.ext_fields) == (0, {"wipeTopicCount": "0"})


async def test_key_values_are_the_same_at_all_fronts_and_come_with_registrations(redis_url: str) -> None:
    async with running(redis_url) as one, running(redis_url) as two:
        item = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders"}
        await Peer(one).ask(RequestCode.PUT_KV_CONFIG, {**item, "value": "broker-a:4"})
        assert (await Peer(two).ask(RequestCode.GET_KV_CONFIG, item)).ext_fields == {"value": "broker-a:4"}
        answer = await BrokerPeer().register(one)
        assert answer.body == b'{"table":{"orders":"broker-a:4"}}'
        await Peer(two).ask(RequestCode.DELETE_KV_CONFIG, item)
        missing = await Peer(one).ask(RequestCode.GET_KV_CONFIG, item)
        assert (missing.code, missing.remark) == (
            22,
            "No config item, Namespace: ORDER_TOPIC_CONFIG Key: orders",
        )
        assert (await BrokerPeer().register(two)).body == b'{"table":{}}'


async def test_a_front_that_is_read_only_refuses_brokers_and_operators(redis_url: str) -> None:
    async with running(redis_url, read_only="true") as front:
        answer = await BrokerPeer().register(front)
        assert (answer.code, answer.remark) == (16, "this name server is read-only")
        assert (await Peer(front).ask(RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0


async def test_who_may_ask_what_is_a_matter_of_network_and_code(redis_url: str) -> None:
    async with running(redis_url, allow="10.0.0.0/8=*;0.0.0.0/0=105,106") as front:
        outside, inside = Peer(front, "192.0.2.1:7"), Peer(front, "10.1.2.3:7")
        assert (await outside.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0
        refused = await outside.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert (refused.code, refused.remark) == (16, "192.0.2.1 may not send request 206")
        assert (await inside.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 0


async def test_settings_are_changed_by_mqadmin_only_where_that_is_on_and_harmless(redis_url: str) -> None:
    async with running(redis_url) as front:
        answer = await Peer(front).ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false")
        assert answer.code == ResponseCode.NO_PERMISSION
    async with running(redis_url, update_config="true") as front:
        peer = Peer(front)
        for body in (b"kvConfigPath=/etc/passwd", b"listenPort=1", b"nonsense=1"):
            assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)).code == 16
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false")).code == 0
        listed = await peer.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "c"})
        assert (listed.code, listed.remark) == (1, "disable")
        shown = await peer.ask(RequestCode.GET_NAMESRV_CONFIG)
        assert b"enableTopicList=false\n" in shown.body


async def test_a_change_of_settings_leaves_one_record(redis_url: str, admin: redis.Redis) -> None:
    async with running(redis_url, update_config="true") as front:
        operator = Peer(front, "192.0.2.9:77")
        wanted = b"supportActingMaster=true\nenableTopicList=false\norderMessageEnable=false"
        for body in (wanted, wanted, b"", b"enableTopicList=no", b"listenPort=1"):
            await operator.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
        assert [record for record in records(admin) if record["kind"] == "settings"] == [
            {
                "kind": "settings",
                "reason": "enableTopicList=false supportActingMaster=true",
                "by": f"192.0.2.9:77 at front {front.name}",
            }
        ]


async def test_settings_stay_as_they_are_while_nothing_can_be_recorded(
    redis_url: str, admin: redis.Redis
) -> None:
    async with running(redis_url, update_config="true") as front:
        admin.set("{sharedroutes}:schema", "9")
        refused = await Peer(front).ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false")
        shown = await Peer(front).ask(RequestCode.GET_NAMESRV_CONFIG)
        assert (refused.code, b"enableTopicList=true\n" in shown.body) == (1, True)


async def test_records_say_who_asked_for_the_change(redis_url: str, admin: redis.Redis) -> None:
    async with running(redis_url) as front:
        await BrokerPeer().register(front)
        operator = Peer(front, "192.0.2.9:77")
        await operator.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
        await operator.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
        await operator.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"})
        broker = BrokerPeer()
        leaving = Peer(front, "192.0.2.8:77")
        assert (
            await leaving.ask(RequestCode.UNREGISTER_BROKER, {**broker.fields, "brokerId": "-1"})
        ).code == 0
        by = {record["kind"]: record["by"] for record in records(admin)}
        assert by == {
            "topics": f"127.0.0.1:5 at front {front.name}",
            "up": f"127.0.0.1:5 at front {front.name}",
            "wiped": f"192.0.2.9:77 at front {front.name}",
            "kv": f"192.0.2.9:77 at front {front.name}",
            "deleted": f"192.0.2.9:77 at front {front.name}",
            "down": f"192.0.2.8:77 at front {front.name}",
        }


async def test_records_of_what_a_front_does_by_itself_name_it(redis_url: str, admin: redis.Redis) -> None:
    broker = BrokerPeer()
    async with running(redis_url) as front:
        await broker.register(front)
        broker.die()
        await await_until(
            lambda: records(admin)[-1]["kind"] == "down", description="the lease of the broker has ended"
        )
        assert records(admin)[-1]["by"] == f"front {front.name}"


async def test_a_switch_that_is_turned_holds_for_routes_that_were_ready(redis_url: str) -> None:
    async with running(redis_url, update_config="true") as front:
        peer = Peer(front)
        order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-a:4"}
        await peer.ask(RequestCode.PUT_KV_CONFIG, order)
        await BrokerPeer().register(front)
        assert "orderTopicConf" not in (await peer.route("orders") or {})
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
        assert (await peer.route("orders") or {})["orderTopicConf"] == "broker-a:4"
