"""What a registration has to write: the difference of two topic tables; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from .. import codec
from ..errors import InvalidInput
from ..model import TopicConfig

_MAX_PART_BYTES: Final = 262_144
"""Of attributes and queue mappings: so much keeps Redis busy for no longer than many plain topics."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Topics to write or to remove."""

    added: dict[str, TopicConfig] = field(default_factory=dict)
    changed: dict[str, TopicConfig] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def chunks(self, size: int) -> Iterator[Difference]:
        """Yield parts of at most `size` topics each, and of not much more than 256 KiB besides names.

        Each is made in its turn: what a table takes at once stays with the process, holes in its memory.
        """
        added, changed, removed = iter(self.added.items()), iter(self.changed.items()), iter(self.removed)
        start = 0
        for end in self._ends(size):
            some_added = dict(islice(added, end - start))
            some_changed = dict(islice(changed, end - start - len(some_added)))
            some_removed = [*islice(removed, end - start - len(some_added) - len(some_changed))]
            yield Difference(some_added, some_changed, some_removed)
            start = end

    def _ends(self, size: int) -> Iterator[int]:
        """Yield where the parts end, counted over what is added, changed and removed."""
        written = [*self.added.values(), *self.changed.values()]
        start, total = 0, len(written) + len(self.removed)
        if any([config.attributes or config.queue_mapping for config in written]):  # noqa: C419 - quicker
            weight = 0
            for end, config in enumerate(written, 1):
                if config.attributes or config.queue_mapping:
                    weight += len(codec.encode_config(config))
                if end - start == size or weight >= _MAX_PART_BYTES:
                    yield end
                    start, weight = end, 0
        yield from range(start + size, total, size)
        if total > start:
            yield total


def check_entry(name: str, config: TopicConfig) -> None:
    """Raise InvalidInput when a topic stands in a table under another name than its own."""
    if name != config.topic_name:
        raise InvalidInput(f"the table holds topic {config.topic_name!r} under the name {name!r}")


def difference(base: Mapping[str, TopicConfig], topics: Mapping[str, TopicConfig]) -> Difference:
    """Return what makes `topics` of the table that was written before; raise InvalidInput."""
    result, known = Difference(), 0
    for name, config in topics.items():
        old = base.get(name)
        known += old is not None
        if old is config:  # the usual case, and far cheaper than comparing
            continue
        check_entry(name, config)
        if old is None:
            result.added[name] = config
        elif old != config:
            result.changed[name] = config
    if known < len(base):
        result.removed.extend(name for name in base if name not in topics)
    return result


def difference_to_stored(stored: Mapping[str, bytes], topics: Mapping[str, TopicConfig]) -> Difference:
    """Return what makes `topics` of the table that was read: topics to encoded configurations."""
    result = Difference(removed=[name for name in stored if name not in topics])
    for name, config in topics.items():
        old = stored.get(name)
        if old is None:
            result.added[name] = config
        elif old != codec.encode_config(config):
            result.changed[name] = config
    return result
