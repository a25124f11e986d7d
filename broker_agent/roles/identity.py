"""Decides what a broker with a configured role is: by its broker.conf, and by its own word while it runs."""

from __future__ import annotations

from dataclasses import replace

from ...registry import MASTER_ID, Broker
from ..rocketmq.broker_conf import BrokerConf


class Identity:
    """What a broker is, from what its file says, what it says itself, and whether it runs; pure.

    RocketMQ reads broker.conf when it starts. So another address or id counts when the broker has ended, or
    when it says the same of itself; all else counts at once. While it answers, it knows its permission best,
    and whether its release knows of acting masters: RocketMQ 5 says so, whatever its file leaves out.
    """

    def __init__(self, broker: Broker) -> None:
        self._filed: BrokerConf | None = None
        self._said: BrokerConf | None = None
        self._is = broker
        self._runs = False
        self._acting: bool | None = None
        """What the broker said last of acting masters; None = nothing, as RocketMQ 4."""

    @property
    def waiting(self) -> str:
        """What the file says and the running broker is not: for the operator; empty = nothing."""
        if self._filed is None or _is_same(self._filed.broker, self._is):
            return ""
        new, old = self._filed.broker, self._is
        text = f"broker.conf says id {new.broker_id} at {new.address} now, and the running broker is"
        return f"{text} {old.broker_id} at {old.address}: it counts when the broker restarts"

    def filed(self, conf: BrokerConf) -> BrokerConf:
        """Take what the file says; return what the broker is."""
        self._filed = conf
        return self._now(conf)

    def said(self, conf: BrokerConf | None) -> BrokerConf | None:
        """Take what the running broker says of itself, None = nothing; return what it is, if known."""
        self._said = conf
        if conf is not None:
            self._acting = conf.broker.enable_acting_master
        return None if self._filed is None else self._now(self._filed)

    def runs(self) -> None:
        """Take that the broker is there."""
        self._runs = True

    def ended(self) -> BrokerConf | None:
        """Take that its process has ended; return what it is from now on, if known."""
        self._runs = False
        return self.said(None)

    def _now(self, filed: BrokerConf) -> BrokerConf:
        permission = filed.broker_permission if self._said is None else self._said.broker_permission
        if not self._runs or _is_same(filed.broker, self._is) or self._confirms(filed.broker):
            self._is = filed.broker
        broker = replace(self._is, enable_acting_master=self._acting_master())
        return replace(filed, broker=broker, broker_permission=permission)

    def _acting_master(self) -> bool | None:
        """Return whether it may stand in as master: by its own word, then its file's, then its last word."""
        filed = self._is.enable_acting_master
        word = self._acting if self._said is not None or filed is None else filed
        # To a master "no" and "not said" are one, which is not worth another registration.
        is_same = self._is.broker_id == MASTER_ID and bool(word) == bool(filed)
        return filed if is_same else word

    def _confirms(self, broker: Broker) -> bool:
        """Whether the running broker says that it is this one: the file may leave its host to a default."""
        said = self._said.broker if self._said is not None else None
        if said is None or said.broker_id != broker.broker_id:
            return False
        return broker.address in (said.address, self._is.address)


def _is_same(broker: Broker, other: Broker) -> bool:
    return (broker.broker_id, broker.address) == (other.broker_id, other.address)
