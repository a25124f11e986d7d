"""The tables that a load gives."""

from __future__ import annotations

from typing import Final

from ..tables import Column, Table

__all__ = ["LOAD_CHANGES", "LOAD_SUMMARY", "SET_ASIDE"]

LOAD_CHANGES: Final = Table(
    "load_changes",
    "one thing that a load would change, from a dry run",
    (
        Column("broker", "string", "broker name"),
        Column("topic", "string", "topic name; null with cluster"),
        Column("action", "string", "added, changed, removed; or cluster: the broker gets another one"),
        Column(
            "before",
            "string",
            "the configuration as JSON with RocketMQ's names, or the cluster; null = there is none",
        ),
        Column(
            "after",
            "string",
            "the same, after the load; as before = its row in the route index is missing, and is written",
        ),
    ),
)

LOAD_SUMMARY: Final = Table(
    "load_summary",
    "what a load did with a broker, or would do in a dry run, in topics",
    (
        Column("broker", "string", "broker name"),
        Column("added", "bigint", "topics that were new on it"),
        Column("changed", "bigint", "topics with another configuration"),
        Column("removed", "bigint", "topics that went, where others are removed"),
        Column("unchanged", "bigint", "topics that were as wanted"),
        Column("refused", "string", "why it was not written, or not in full; empty = it was"),
    ),
)

SET_ASIDE: Final = Table(
    "set_aside",
    "a file, or a part of one, that could not be read",
    (
        Column("file", "string", "its path"),
        Column("reason", "string", "why"),
    ),
)
