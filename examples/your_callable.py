"""A sender that is a function of another library: it takes an address, and raises errors of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sharedroutes.client import NETWORK_ERRORS, RetryPolicy, RouteClient


class VendorError(Exception):
    """Stands for what the other library raises when a broker answers with an error."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class VendorTimeout(Exception):
    """Stands for what it raises when no answer comes."""


def status_of(error: Exception) -> int | None:
    """Return the code by which an error is judged; None = it is judged by its class."""
    return error.status if isinstance(error, VendorError) else None


POLICY = RetryPolicy(
    retry_on=(*NETWORK_ERRORS, VendorTimeout),
    code_of=status_of,
    retry_codes=frozenset({429, 503}),
)


VendorSend: TypeAlias = Callable[[str, bytes, float | None], str]
"""Takes address, payload and seconds to wait (None = no limit); returns a receipt."""


def send(routes: RouteClient, topic: str, payload: bytes, vendor_send: VendorSend) -> str:
    """Return the receipt of the first broker that took the payload."""
    for attempt in routes.attempts(topic, policy=POLICY):
        with attempt as queue:
            return vendor_send(queue.address, payload, attempt.timeout_s)
    raise AssertionError("not reached: the loop ends with an answer or an error")
