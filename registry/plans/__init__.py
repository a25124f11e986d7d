"""One generator per operation: what is sent to Redis and what the answers mean, without any I/O."""

from typing import TYPE_CHECKING

from ..lazily import lazily
from .base import Batch, Call, Command, ErrorReply, Plan, Reads, Reply
from .changes import NEWEST, HistoryBounds, HistoryPage, HistoryRange, history, history_bounds
from .client_hints import hint, hints
from .expiry import expire, sweep
from .kv import (
    ORDER_TOPIC_CONFIG,
    kv_delete,
    kv_get,
    kv_list,
    kv_namespaces,
    kv_put,
    order_configs,
)
from .leases import heartbeat, unregister, unregister_many
from .listings import cluster_info, member_group, owner, query_data_version, system_topics, topics
from .operators import check_schema, delete_topic, set_write_perm
from .registration import register, register_topic
from .routes import ORIGIN, ChangePage, Listing, brokers, changes_since, last_change_id, lookup
from .stream import Page, Stream, advance
from .view import Lookup, route_of
from .withdraw import withdraw

if TYPE_CHECKING:
    from .examination import CLOCK_PAUSE_S, health, server_time
    from .forgetting import forget
    from .records import export, import_broker, import_kv
    from .repair.mend import rebuild
    from .repair.walk import verify
    from .replicas import ReplicaState, Roster, RosterEntry, roster
    from .rights import may_register
    from .whole import whole_table

__all__ = [
    "CLOCK_PAUSE_S",
    "NEWEST",
    "ORDER_TOPIC_CONFIG",
    "ORIGIN",
    "Batch",
    "Call",
    "ChangePage",
    "Command",
    "ErrorReply",
    "HistoryBounds",
    "HistoryPage",
    "HistoryRange",
    "Listing",
    "Lookup",
    "Page",
    "Plan",
    "Reads",
    "ReplicaState",
    "Reply",
    "Roster",
    "RosterEntry",
    "Stream",
    "advance",
    "brokers",
    "changes_since",
    "check_schema",
    "cluster_info",
    "delete_topic",
    "expire",
    "export",
    "forget",
    "health",
    "heartbeat",
    "hint",
    "hints",
    "history",
    "history_bounds",
    "import_broker",
    "import_kv",
    "kv_delete",
    "kv_get",
    "kv_list",
    "kv_namespaces",
    "kv_put",
    "last_change_id",
    "lookup",
    "may_register",
    "member_group",
    "order_configs",
    "owner",
    "query_data_version",
    "rebuild",
    "register",
    "register_topic",
    "roster",
    "route_of",
    "server_time",
    "set_write_perm",
    "sweep",
    "system_topics",
    "topics",
    "unregister",
    "unregister_many",
    "verify",
    "whole_table",
    "withdraw",
]

if not TYPE_CHECKING:  # a type checker would take every name for one of this package
    _LATER = {
        "CLOCK_PAUSE_S": "examination",
        "export": "records",
        "forget": "forgetting",
        "health": "examination",
        "import_broker": "records",
        "import_kv": "records",
        "ReplicaState": "replicas",
        "Roster": "replicas",
        "RosterEntry": "replicas",
        "may_register": "rights",
        "rebuild": "repair.mend",
        "roster": "replicas",
        "server_time": "examination",
        "verify": "repair.walk",
        "whole_table": "whole",
    }
    __getattr__, __dir__ = lazily(__name__, __all__, _LATER)
