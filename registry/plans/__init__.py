"""One generator per operation: what is sent to Redis and what the answers mean, without any I/O."""

from .base import Batch, Call, Command, ErrorReply, Plan, Reads, Reply
from .expiry import sweep
from .lease import heartbeat, unregister
from .read import (
    ORIGIN,
    ChangePage,
    Listing,
    Lookup,
    brokers,
    changes_since,
    last_change_id,
    lookup,
    route_of,
    topics,
)
from .registration import register

__all__ = [
    "ORIGIN",
    "Batch",
    "Call",
    "ChangePage",
    "Command",
    "ErrorReply",
    "Listing",
    "Lookup",
    "Plan",
    "Reads",
    "Reply",
    "brokers",
    "changes_since",
    "heartbeat",
    "last_change_id",
    "lookup",
    "register",
    "route_of",
    "sweep",
    "topics",
    "unregister",
]
