"""A sender over plain sockets; the protocol is a line out, and a code and a remark back."""

from __future__ import annotations

import socket

from sharedroutes.client import BrokerRefused, MessageQueue, RetryPolicy, RouteClient

POLICY = RetryPolicy(deadline_s=3.0)


def send(routes: RouteClient, topic: str, message: str) -> str:
    """Return the answer of a broker; raises AttemptsFailed, and NoRoute if no broker holds the topic."""
    for attempt in routes.attempts(topic, policy=POLICY):
        with attempt as queue:
            return exchange(queue, message, attempt.timeout_s)
    raise AssertionError("not reached: the loop ends with an answer or an error")


def exchange(queue: MessageQueue, message: str, timeout_s: float | None) -> str:
    """Send to one broker; raises OSError, EOFError and BrokerRefused, which the policy judges."""
    with socket.create_connection((queue.host, queue.port), timeout_s) as link, link.makefile() as lines:
        link.sendall(f"{queue.topic} {queue.queue_id} {message}\n".encode())
        code, _, remark = lines.readline().strip().partition(" ")
    if not code:
        raise EOFError("the broker ended the connection without an answer")
    if code != "0":
        raise BrokerRefused(int(code), remark)
    return remark
