"""The load of checked rows into a registry: look at all brokers, refuse or write, and say what was done."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

from ...registry import BrokerOwned, CorruptData, InvalidInput, RegistryError, RouteStore
from ...registry.checks import check_name
from ...registry.codec import decode_config
from ...registry.plans import Progress
from ...registry.plans.bulk_load import Loaded, Look, Wanted, live_brokers, load_table, look
from ...registry.store_parts import iterate
from ...registry.wording import counted
from ..errors import BadOption, BadRows, TargetRefused
from ..schemas import CONFIG_FIELDS, LOAD_SUMMARY
from .options import Registry
from .routes_checks import MAX_PROBLEMS, Checked

_AT_ONCE: Final = 3
"""Brokers that are written at the same time: enough that the server need not wait for this process."""

_CHUNKS_A_SECOND: Final = 10
_NAMED: Final = 10
"""So many refused brokers are named with the reason, the others by name alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a load may do; raises BadOption for what makes no sense."""

    touch_live: bool = False
    remove_others: bool = False
    max_entries_per_second: int = 0
    """0 = as fast as it goes."""

    cluster: str = "DefaultCluster"
    """Of brokers that the registry does not know, where the rows do not say."""

    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.max_entries_per_second < 0:
            what = f"{self.max_entries_per_second} is less than 0"
            raise BadOption.of("load", "max_entries_per_second", what)
        try:
            check_name("cluster", self.cluster)
        except InvalidInput as error:
            raise BadOption.of("load", "cluster", str(error)) from None


@dataclass(slots=True)
class Pace:
    """Lets a number of entries a second through, for all threads together; 0 = any."""

    per_second: int
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _free_at: float = field(init=False, default=0.0)

    def wrote(self, entries: int) -> None:
        """Wait as long as so many entries may take."""
        if not self.per_second:
            return
        with self._lock:
            now = self.clock()
            self._free_at = max(self._free_at, now) + entries / self.per_second
            wait_s = self._free_at - now
        self.sleep(wait_s)


Tables: TypeAlias = Mapping[str, Callable[[], Wanted]]
"""Brokers, by name, to what makes their tables: not all of them need to be there at the same time."""


def tables_of(rows: pa.Table, rules: Rules) -> Tables:
    """Return the table of each broker, of rows in any order; raises BadRows.

    A row that stands twice is one. A topic with two configurations is an error, as is a broker with two
    clusters.
    """
    grouped = rows.group_by("broker").aggregate(
        [("topic", "list"), ("config", "list"), ("cluster", "distinct")]
    )
    problems: list[str] = []
    found: dict[str, Callable[[], Wanted]] = {}
    for at, name in enumerate(grouped.column("broker").to_pylist()):
        clusters = sorted(filter(None, grouped.column("cluster_distinct")[at].as_py()))
        if len(clusters) > 1:
            problems.append(f"broker {name!r} stands with the clusters {', '.join(map(repr, clusters))}")
        problems += _contradictions(name, grouped, at)
        found[name] = partial(_wanted, grouped, at, "".join(clusters), rules)
    if problems:
        raise bad_rows(problems, len(problems))
    return dict(sorted(found.items()))


def bad_rows(problems: Sequence[str], count: int) -> BadRows:
    """Return the error that tells the first few problems, of so many."""
    told = problems[:MAX_PROBLEMS]
    more = f"; and {count - len(told)} more" if count > len(told) else ""
    return BadRows(f"nothing was written; {counted(count, 'problem')}: {'; '.join(told)}{more}")


def _wanted(grouped: pa.Table, at: int, cluster: str, rules: Rules) -> Wanted:
    names = grouped.column("topic_list")[at].values.to_pylist()
    configs = grouped.column("config_list")[at].values.dictionary_encode()
    made = configs.dictionary.to_pylist()  # equal ones are one object
    topics = dict(zip(names, [made[number] for number in configs.indices.to_pylist()], strict=True))
    broker = grouped.column("broker")[at].as_py()
    return Wanted(broker, topics, cluster, new_cluster=rules.cluster, only_these=rules.remove_others)


def _contradictions(broker: str, grouped: pa.Table, at: int) -> Iterator[str]:
    names = grouped.column("topic_list")[at].values
    if len(names.unique()) == len(names):
        return
    configs = grouped.column("config_list")[at].values
    pairs = set(zip(names.to_pylist(), configs.to_pylist(), strict=True))
    for topic, times in sorted(Counter(name for name, _ in pairs).items()):
        if times > 1:
            yield f"topic {topic!r} of broker {broker!r} stands with {times} configurations"


def load_rows(registry: Registry, rules: Rules, checked: Checked) -> list[BrokerLoad]:
    """Load checked rows into a registry; return what was done with each broker, by name.

    Raises BadRows where there are bad ones, TargetRefused before anything is written, NewerSchema,
    StoreRefused, StoreUnavailable.
    """
    if checked.bad_rows:
        raise bad_rows(checked.problems, checked.bad_rows)
    tables = tables_of(checked.rows, rules)
    with registry.store() as store:
        return Loading(store, rules).run(tables)


class Loading:
    """Loads tables into one registry, over a store that stays the caller's."""

    def __init__(self, store: RouteStore, rules: Rules) -> None:
        self._store = store
        self._rules = rules
        self._pace = Pace(rules.max_entries_per_second)
        self._config = store.config
        if rules.max_entries_per_second:
            chunk = max(1, rules.max_entries_per_second // _CHUNKS_A_SECOND)
            self._config = replace(self._config, chunk_topics=min(chunk, self._config.chunk_topics))

    def run(self, tables: Tables) -> list[BrokerLoad]:
        """Load the tables; return what was done with each, in their order.

        Raises TargetRefused, with nothing written, when a live broker would be touched and must not be.
        Raises NewerSchema, StoreRefused, StoreUnavailable.
        """
        if not self._rules.dry_run:
            self._refuse_live(tables)
        work = self._compare if self._rules.dry_run else self._write
        if len(tables) == 1 or self._rules.max_entries_per_second:
            return [work(make()) for make in tables.values()]
        with ThreadPoolExecutor(_AT_ONCE, "sharedroutes-load") as pool:
            return list(pool.map(lambda make: work(make()), tables.values()))

    def _refuse_live(self, tables: Tables) -> None:
        live = self._store.run(live_brokers(self._store.keys, list(tables)))
        looks = (self._store.run(look(self._config, tables[name]())) for name in live)
        alive = [done for found in looks if (done := self._judged(found)).stops_all]
        problem = refusal(alive, len(tables), is_dry_run=False)
        if problem is not None:
            raise problem

    def _judged(self, found: Look) -> BrokerLoad:
        done = _counted(found)
        refused = found.refusal(touch_live=self._rules.touch_live)
        if refused is not None:
            done.refused, done.stops_all = str(refused), True
        return done

    def _compare(self, wanted: Wanted) -> BrokerLoad:
        try:
            found = self._store.run(look(self._config, wanted))
        except CorruptData as error:
            return BrokerLoad(wanted.broker_name, refused=str(error))
        done = self._judged(found)
        done.changes = list(_changes(found))
        return done

    def _write(self, wanted: Wanted) -> BrokerLoad:
        written = 0

        def progress(now: Progress) -> None:
            nonlocal written
            self._pace.wrote(max(0, now.done - written))
            written = now.done

        stream = load_table(self._config, wanted, touch_live=self._rules.touch_live)
        try:
            loaded: list[Loaded] = list(iterate(self._store.run, stream, progress))
        except (BrokerOwned, CorruptData) as error:
            return BrokerLoad(wanted.broker_name, refused=str(error))
        except RegistryError as error:
            error.add_note(
                f"while {wanted.broker_name} was loaded; run it again: what is there is not repeated"
            )
            raise
        done = _counted(loaded[-1].look)
        done.refused = loaded[-1].problem
        return done


def _counted(found: Look) -> BrokerLoad:
    difference = found.difference
    touched = len(difference.added) + len(difference.changed)
    return BrokerLoad(
        found.wanted.broker_name,
        len(difference.added),
        len(difference.changed),
        len(difference.removed),
        len(found.wanted.topics) - touched,
    )


def _changes(found: Look) -> Iterator[TopicChange]:
    name, stored = found.wanted.broker_name, found.stored
    cluster = found.known.cluster
    if cluster != found.wanted_cluster:
        yield TopicChange(name, None, "cluster", cluster or None, found.wanted_cluster)
    difference = found.difference
    for action, written in (("added", difference.added), ("changed", difference.changed)):
        for topic, config in sorted(written.items()):
            yield TopicChange(name, topic, action, _as_json(stored.get(topic)), _as_json(config))
    for topic in difference.removed:
        yield TopicChange(name, topic, "removed", _as_json(stored[topic]), None)


@lru_cache(maxsize=4_096)
def _as_json(config: bytes | None) -> str | None:
    """Return a configuration as RocketMQ writes it, without the topic's name; as it stands if it is none."""
    if config is None:
        return None
    try:
        found = decode_config("", "any", config)
    except CorruptData:
        return config.decode(errors="backslashreplace")
    fields = {theirs: getattr(found, ours) for theirs, ours in CONFIG_FIELDS.items()}
    return orjson.dumps(fields).decode()


@dataclass(frozen=True, slots=True)
class TopicChange:
    """One thing that a load changes; before and after are configurations as JSON, or names of clusters."""

    broker: str
    topic: str | None
    action: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class BrokerLoad:
    """What was done with a broker, or in a dry run would be, in numbers of topics."""

    broker: str
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    refused: str = ""
    """Why nothing of it, or not all, was written; empty = it was."""

    stops_all: bool = False
    """In a dry run: whether the load itself would be refused as a whole for it."""

    changes: list[TopicChange] = field(default_factory=list, repr=False)
    """In a dry run."""


def summary_rows(done: Sequence[BrokerLoad]) -> list[dict[str, Any]]:
    """Return what was done as rows of LOAD_SUMMARY."""
    return [{name: getattr(load, name) for name in LOAD_SUMMARY.names} for load in done]


def refusal(done: Sequence[BrokerLoad], count: int, *, is_dry_run: bool) -> TargetRefused | None:
    """Return the error with which a load of so many brokers ends, or would by its dry run; None = none."""
    stops = {load.broker: load.refused for load in done if load.stops_all}
    refused = {load.broker: load.refused for load in done if load.refused}
    if stops:
        was = "would be" if is_dry_run else "was"
        return TargetRefused(
            f"nothing {was} written: of {count} brokers {len(stops)} are alive and would be changed: "
            f"{_told(stops, '{why}')}; to change them all the same, let the load touch live brokers"
        )
    if not refused:
        return None
    what = "would not be written, the others would be"
    if not is_dry_run:
        what = "were not written in full, the others were"
    return TargetRefused(f"of {count} brokers {len(refused)} {what}: {_told(refused)}")


def _told(refused: Mapping[str, str], form: str = "{name}: {why}") -> str:
    """Return the reasons of the first brokers, and the names of the others."""
    told = "; ".join(form.format(name=name, why=why) for name, why in list(refused.items())[:_NAMED])
    return told + "".join(f", {name}" for name in list(refused)[_NAMED:])
