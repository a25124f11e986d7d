"""Which replica of a broker to read from."""

from __future__ import annotations

from ...registry.model import MASTER_ID, BrokerData


def find_address(
    broker: BrokerData, broker_id: int = MASTER_ID, *, only_this: bool = False
) -> tuple[str, int] | None:
    """Return the address to read from and its broker id: that id, for a missing slave the next id, else any.

    With `only_this`, any other one will not do. "Any" is the lowest id that is alive; None = there is none.
    Source: MQClientInstance.findBrokerAddressInSubscribe, where `broker_id` is the hint of the last answer.
    """
    addresses = broker.broker_addrs
    wanted = [broker_id]
    if broker_id != MASTER_ID:
        wanted.append(broker_id + 1)
    if addresses and not only_this:
        wanted.append(broker.min_broker_id)
    for found in wanted:
        if found in addresses:
            return addresses[found], found
    return None
