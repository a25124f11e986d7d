"""Taking a broker out of the registry for an operator, whoever has registered it."""

from __future__ import annotations

from typing import Final

from ..config import RegistryConfig
from ..errors import StaleEpoch, StoreUnavailable
from ..keys import Keys
from ..model import Broker, Registration
from .base import Plan
from .leases import unregister
from .table import RESTARTED, Write, claim

_TRIES: Final = 10
_ADVICE: Final = "take it out there: it is another broker of the same name and id"


def withdraw(config: RegistryConfig, broker: Broker, *, reason: str) -> Plan[bool]:
    """End the lease of a broker, whoever holds it, and keep the broker out; return whether there was a lease.

    Its owner is fenced. A registration with `admit=False` raises BrokerWithdrawn from then on, until one with
    `admit` is granted: that of an agent that is started, or that is told to resume.
    Raises BrokerOwned when the lease is that of another address, CorruptData, NewerSchema, StoreRefused,
    StoreUnavailable.
    """
    write = Write(config, Keys(config.namespace), broker)
    for _ in range(_TRIES):
        epoch = yield from claim(write, RESTARTED, _ADVICE)
        try:
            nothing = Registration(broker, epoch, "", {}, complete=False)
            return (yield from unregister(config, nothing, reason=reason, stays_out=True))
        except StaleEpoch:  # somebody else claimed it in between: the last word is the operator's
            continue
    raise StoreUnavailable(f"{write.broker_key}: is claimed faster than it can be taken out; try again")
