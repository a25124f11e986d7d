"""How the ingest runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ...registry import RegistryConfig
from ..errors import BadOption
from ..sources.change_feed import Settings
from ..sources.options import MOST_PARTITIONS, REGISTRY_OPTIONS, Registry, check_number
from .headroom import Kept
from .layout import CHECKPOINT, join

SOURCE: Final = "route_changes"
_NAME: Final = "ingest"
_MOST: Final = 10_000_000
_A_DAY_S: Final = 86_400
_REGISTRY: Final = RegistryConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    """What is ingested, whereto and how; raises BadOption for what makes no sense."""

    out: str
    """Folder, or URL of one on a file system that Spark knows; made when it does not exist."""

    url: str = ""
    """Of the registry's store; empty = the default of the source."""

    namespace: str = ""
    registries: str = ""
    """Several registries, as the option of the source says; instead of `url` and `namespace`."""

    checkpoint: str = ""
    """Folder of Spark's checkpoint; empty = `_checkpoint` below `out`."""

    starting_position: str = ""
    """Where the very first run begins, as the option of the source says; empty = its default."""

    once: bool = False
    """Whether to end when all is read that was there at the start; False = go on until stopped."""

    trigger_s: float = 1.0
    """From the begin of a batch to the next one's; less = seen earlier, and more and smaller files."""

    max_changes_per_trigger: int = 0
    """Most changes of a batch; 0 = the default of the source."""

    partitions: int = 0
    """Most parts of a batch that are read at the same time; 0 = the default of the source."""

    on_loss: str = ""
    """fail, or mark the gap, where changes were lost before they were read; empty = the source's default."""

    on_corrupt: str = ""
    """quarantine or fail, for records that cannot be read; empty = the source's default."""

    patience_s: float = 60.0
    """How long the store may be away before the ingest gives up."""

    feed_max_entries: int = _REGISTRY.feed_max_entries
    feed_min_age_s: float = _REGISTRY.feed_min_age_s
    """The bounds of the change stream that the registry's writers have, which the warning goes by."""

    warn_at: float = 0.5
    """Which share of those bounds may be unread before there is a warning."""

    def __post_init__(self) -> None:
        if not self.out:
            raise BadOption.of(_NAME, "out", "names no folder")
        for name, low, high in (
            ("trigger_s", 0, _A_DAY_S),
            ("patience_s", 0, _A_DAY_S),
            ("feed_min_age_s", 0, math.inf),
            ("warn_at", 0, 1),
        ):
            check_number(_NAME, name, getattr(self, name), low, high, whole=False)
        check_number(_NAME, "max_changes_per_trigger", self.max_changes_per_trigger, 0, _MOST)
        check_number(_NAME, "partitions", self.partitions, 0, MOST_PARTITIONS)
        check_number(_NAME, "feed_max_entries", self.feed_max_entries, 1, 10**9)
        if self.registries and (self.url or self.namespace):
            raise BadOption.of(_NAME, "registries", "stands instead of url and namespace: leave those out")
        try:
            self.sources()
        except BadOption as error:
            raise BadOption.of(_NAME, _OF_SOURCE.get(error.option, error.option), error.what) from None

    @property
    def checkpoint_folder(self) -> str:
        """Where Spark's checkpoint is."""
        return self.checkpoint or join(self.out, CHECKPOINT)

    @property
    def kept(self) -> Kept:
        """What the registry keeps for sure."""
        return Kept(self.feed_max_entries, round(self.feed_min_age_s * 1_000))

    def sources(self) -> tuple[Registry, ...]:
        """Return the registries that are read."""
        return Settings.of(self.source_options(), stream=True).registries

    def source_options(self, starting_position: str | None = None) -> dict[str, str]:
        """Return what is not left to the defaults of the source, by its names.

        A starting position goes before the one that is configured.
        """
        options = {
            option: str(value) for option, name in _OF_SOURCE.items() if (value := getattr(self, name))
        }
        if starting_position is not None:
            options["startingPosition"] = starting_position
        return options


_OF_SOURCE: Final = {name: name for name in REGISTRY_OPTIONS} | {
    "startingPosition": "starting_position",
    "maxChangesPerTrigger": "max_changes_per_trigger",
    "onLoss": "on_loss",
    "onCorrupt": "on_corrupt",
    "partitions": "partitions",
}
