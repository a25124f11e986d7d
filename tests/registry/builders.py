"""Brokers and topics for tests, and hypothesis strategies for legal ones."""

from __future__ import annotations

import re
from typing import Final

from hypothesis import strategies as st

from sharedroutes.registry import Broker, QueueData, QueueMapping, TopicConfig, topic_table

ADDRESS: Final = "10.0.0.1:10911"
OTHER_ADDRESS: Final = "10.0.0.2:10911"

_WHITE_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f]")


def broker(name: str = "broker-a", broker_id: int = 0, address: str = ADDRESS) -> Broker:
    """Return a broker; two calls with the same arguments mean the same one."""
    return Broker(name, address, broker_id, "cluster-1")


def row(broker_name: str, config: TopicConfig) -> QueueData:
    """Return what a route says of a topic that the broker has so configured."""
    queues = (config.read_queue_nums, config.write_queue_nums)
    return QueueData(broker_name, *queues, config.perm, config.topic_sys_flag, config.queue_mapping)


def topics(count: int, *, first: int = 0, queues: int = 4) -> list[TopicConfig]:
    """Return `count` topics called t<first>, t<first + 1>, ... with that many queues each."""
    return [TopicConfig(f"t{number}", queues, queues) for number in range(first, first + count)]


def table(count: int, *, queues: int = 4) -> dict[str, TopicConfig]:
    """Return `topics` by name."""
    return topic_table(topics(count, queues=queues))


def names() -> st.SearchStrategy[str]:
    """Return legal names of topics, brackets, braces, colons and letters of all alphabets included."""
    anything = st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"])
    text = st.text(st.sampled_from(":{}[]/%0a") | anything, min_size=1, max_size=60)
    return text.filter(lambda name: not _WHITE_SPACE.search(name) and len(name.encode()) <= 255)


def broker_names() -> st.SearchStrategy[str]:
    """Return legal names of brokers: a name without a colon."""
    return names().map(lambda name: name.replace(":", "-"))


def queue_mappings() -> st.SearchStrategy[QueueMapping]:
    """Return legal queue mappings of static topics."""
    numbers = st.integers(0, 2**31 - 1)
    ids = st.dictionaries(numbers, numbers, max_size=3)
    return st.builds(QueueMapping, numbers, st.integers(0, 2**63 - 1), ids, names(), st.booleans())


def topic_configs(topic_names: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[TopicConfig]:
    """Return legal topics, with and without what is rare."""
    queues = st.integers(0, 65_536)
    text = st.text(st.characters(codec="utf-8"), max_size=20)
    return st.builds(
        TopicConfig,
        names() if topic_names is None else topic_names,
        queues,
        queues,
        st.integers(0, 7),
        st.integers(0, 2**31 - 1),
        order=st.booleans(),
        topic_filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
        attributes=st.dictionaries(text, text, max_size=3),
        queue_mapping=st.none() | queue_mappings(),
    )
