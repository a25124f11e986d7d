"""One generator per operation: what is sent to Redis and what the answers mean, without any I/O.

Here are those that agents and clients need; those of operators are imported from their modules, so that they
take no memory elsewhere. What writes is imported by the first agent or front of a process.
"""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports
from .base import (
    Batch,
    Call,
    Command,
    ErrorReply,
    Kept,
    Plan,
    Progress,
    Reads,
    Reply,
    Stream,
    advance,
    check_schema,
)
from .changes import (
    NEWEST,
    ORIGIN,
    ChangePage,
    HistoryBounds,
    HistoryPage,
    HistoryRange,
    changes_since,
    history,
    history_bounds,
    last_change_id,
)
from .client_hints import hint, hints
from .expiry import expire, server_time, sweep
from .listings import (
    cluster_info,
    member_group,
    owner,
    query_data_version,
    system_topics,
    topics,
    whole_table,
)
from .routes import Listing, Lookup, brokers, lookup, route_of

if TYPE_CHECKING:
    from .leases import heartbeat, unregister
    from .operators import (
        ORDER_TOPIC_CONFIG,
        delete_topic,
        kv_delete,
        kv_get,
        kv_list,
        kv_namespaces,
        kv_put,
        record_settings,
        set_write_perm,
        withdraw,
    )
    from .registration import Rest, register, register_topic
else:
    __getattr__, __dir__ = lazy_imports(
        __name__,
        {
            **dict.fromkeys(("heartbeat", "unregister"), "leases"),
            **dict.fromkeys(
                (
                    *("ORDER_TOPIC_CONFIG", "kv_delete", "kv_get", "kv_list", "kv_namespaces", "kv_put"),
                    *("delete_topic", "record_settings", "set_write_perm", "withdraw"),
                ),
                "operators",
            ),
            **dict.fromkeys(("Rest", "register", "register_topic"), "registration"),
        },
    )
