"""The auditor of the fault tests notices what it is there for."""

from __future__ import annotations

import pytest

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.faults.auditor import BROKER, TOPIC, Auditor
from tests.support import wait_until


def test_an_address_without_a_lease_is_noticed(own_server: EmbeddedServer, redis_url: str) -> None:
    with RouteStore.from_url(own_server.url) as store, Auditor(redis_url, own_server.url) as auditor:
        wait_until(lambda: auditor.lookups, description="somebody has looked")
        auditor.check()
        store.register(Broker(BROKER, "127.0.0.1:10911"), [TopicConfig(TOPIC, 1, 1)])
        seen = auditor.lookups
        wait_until(lambda: auditor.lookups > seen + 1, description="somebody has looked again")
        with pytest.raises(AssertionError, match="no lease, and yet"):
            auditor.check()
