"""The source of changes as plain objects against a server: ranges, batches of a stream, losses."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pytest
import redis
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from sharedroutes.pipeline.errors import BadOption, ChangesLost
from sharedroutes.pipeline.schemas import CHANGES, GAP
from sharedroutes.pipeline.sources.changes import ChangesReader, ChangesSource, ChangesStreamReader
from sharedroutes.registry import CorruptData, RouteStore, StoreUnavailable
from sharedroutes.registry.keys import Keys
from tests.ports import free_port
from tests.registry.builders import broker, topics

KEY = Keys("sharedroutes").changes
UP = b'{"kind":"up","broker":"a","id":0,"epoch":1}'
Row = dict[str, Any]


def write(admin: redis.Redis, *ids: str, key: str = KEY, record: bytes = UP) -> None:
    pipeline = admin.pipeline(transaction=False)
    for entry_id in ids:
        pipeline.xadd(key, {"c": record}, id=entry_id)
    pipeline.execute()


def numbered(first: int, last: int) -> list[str]:
    return [f"{number}-0" for number in range(first, last + 1)]


def source(url: str, **options: str) -> ChangesSource:
    return ChangesSource({"url": url, **options})


def batch(url: str, **options: str) -> ChangesReader:
    return source(url, **options).reader(CHANGES.schema)


def stream(url: str, **options: str) -> ChangesStreamReader:
    return source(url, **options).streamReader(CHANGES.schema)


def rows(reader: ChangesReader | ChangesStreamReader, partitions: Iterable[InputPartition]) -> list[Row]:
    """Read partitions as workers do, which have copies of all."""
    found: list[Row] = []
    for partition in partitions:
        copy, its_range = pickle.loads(pickle.dumps((reader, partition)))  # noqa: S301 - our own
        for part in copy.read(its_range):
            found += part.to_pylist()
    return found


def all_rows(url: str, **options: str) -> list[Row]:
    reader = batch(url, **options)
    return rows(reader, reader.partitions())


def ids(found: Iterable[Row]) -> list[str]:
    return [row["change_id"] for row in found]


def gaps(found: Iterable[Row]) -> list[tuple[str, str, str]]:
    return [(row["change_id"], row["key"], row["reason"]) for row in found if row["kind"] == GAP]


def follow(reader: ChangesStreamReader, start: dict[str, str], limit: ReadLimit) -> list[list[Row]]:
    """Return the batches from an offset to the end, each of which reads the same when it is repeated."""
    found = []
    while (end := reader.latestOffset(start, limit)) != start:
        read = rows(reader, reader.partitions(start, end))
        assert rows(reader, reader.partitions(start, end)) == read
        found.append(read)
        start = end
    return found


def test_a_batch_is_the_history_of_a_registry(redis_url: str) -> None:
    with RouteStore.from_url(redis_url) as store:
        store.unregister(store.register(broker(), topics(2)))
    found = all_rows(redis_url)
    assert [(row["kind"], row["broker"], row["registry"]) for row in found] == [
        ("topics", "broker-a", "sharedroutes"),
        ("up", "broker-a", "sharedroutes"),
        ("down", "broker-a", "sharedroutes"),
    ]
    assert found[0]["added"] == ["t0", "t1"]
    assert found[1]["lease_ttl_ms"] == 15_000


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("page", [7, 1_000, 10_000])
def test_parts_and_pages_give_every_change_once_in_order(
    redis_url: str, admin: redis.Redis, partitions: int, page: int
) -> None:
    write(admin, *numbered(1, 3_000))
    reader = batch(redis_url, partitions=str(partitions), pageEntries=str(page))
    parts = reader.partitions()
    assert len(parts) == partitions
    assert ids(rows(reader, parts)) == numbered(1, 3_000)


def test_a_burst_in_one_millisecond_is_read_in_parts(redis_url: str, admin: redis.Redis) -> None:
    written = [f"1790000000000-{number}" for number in range(3_000)]
    write(admin, *written)
    reader = batch(redis_url, partitions="3")
    assert len(reader.partitions()) == 3
    assert ids(rows(reader, reader.partitions())) == written


def test_parts_hold_each_change_once_however_crowded_the_stream_is(
    redis_url: str, admin: redis.Redis
) -> None:
    quiet = [f"{ms}-0" for ms in range(1, 86_400_000, 3_600_000)]
    burst = [f"{86_400_000 + number // 10}-{number % 10}" for number in range(2_000)]
    write(admin, *quiet, *burst)
    reader = batch(redis_url, partitions="4")
    parts = reader.partitions()
    assert 1 < len(parts) <= 4
    assert ids(rows(reader, parts)) == [*quiet, *burst]


def test_what_is_short_is_read_by_one_task(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 1_000))
    assert len(batch(redis_url, partitions="4").partitions()) == 1


@pytest.mark.parametrize(
    ("starting", "ending", "found"),
    [
        ("earliest", "latest", numbered(1, 10)),
        ("latest", "latest", []),
        ("4-0", "latest", numbered(5, 10)),
        ("4-7", "6-0", numbered(5, 6)),
        ("0-0", "6-3", numbered(1, 6)),
        ("6-0", "4-0", []),
        ("10-0", "LATEST", []),
        ("Earliest", "99-0", numbered(1, 10)),
        ('{"sharedroutes": "8-0"}', "latest", numbered(9, 10)),
    ],
)
def test_a_batch_begins_after_one_place_and_ends_with_another(
    redis_url: str, admin: redis.Redis, starting: str, ending: str, found: list[str]
) -> None:
    write(admin, *numbered(1, 10))
    assert ids(all_rows(redis_url, startingPosition=starting, endingPosition=ending)) == found


def test_a_registry_without_changes_gives_no_rows(redis_url: str) -> None:
    reader = batch(redis_url)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []  # what Spark asks for then


def test_several_registries_are_one_table(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 2))
    write(admin, *numbered(2, 3), key=Keys("south").changes)
    listed = f'[{{"url": "{redis_url}"}}, {{"url": "{redis_url}", "namespace": "south"}}]'
    found = rows(reader := ChangesSource({"registries": listed}).reader(CHANGES.schema), reader.partitions())
    assert [(row["registry"], row["change_id"]) for row in found] == [
        ("sharedroutes", "1-0"),
        ("sharedroutes", "2-0"),
        ("south", "2-0"),
        ("south", "3-0"),
    ]


def test_a_stream_reads_batches_of_at_most_the_limit(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 25))
    reader = stream(redis_url, maxChangesPerTrigger="10", pageEntries="4")
    assert reader.initialOffset() == {"sharedroutes": "0-0"}
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    found = follow(reader, {"sharedroutes": "0-0"}, ReadMaxRows(10))
    assert [ids(batch) for batch in found] == [numbered(1, 10), numbered(11, 20), numbered(21, 25)]
    assert [ids(batch) for batch in follow(reader, {"sharedroutes": "3-0"}, ReadAllAvailable())] == [
        numbered(4, 25)
    ]
    reader.stop()


def test_a_stream_that_begins_with_the_latest_reads_only_what_comes(
    redis_url: str, admin: redis.Redis
) -> None:
    write(admin, *numbered(1, 5))
    reader = stream(redis_url, startingPosition="latest")
    start = reader.initialOffset()
    assert start == reader.reportLatestOffset() == {"sharedroutes": "5-0"}
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    assert reader.partitions(start, start) == []
    write(admin, "6-0")
    assert [ids(batch) for batch in follow(reader, start, ReadMaxRows(10))] == [["6-0"]]
    reader.stop()


def test_available_now_reads_what_was_there_and_ends(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 5))
    reader = stream(redis_url)
    reader.prepareForTriggerAvailableNow()
    write(admin, *numbered(6, 9))
    found = follow(reader, reader.initialOffset(), ReadMaxRows(3))
    assert [ids(batch) for batch in found] == [numbered(1, 3), numbered(4, 5)]
    reader.stop()


def test_a_batch_is_the_same_when_more_was_written_since(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 5))
    reader = stream(redis_url)
    before = rows(reader, reader.partitions({"sharedroutes": "1-0"}, {"sharedroutes": "4-0"}))
    write(admin, *numbered(6, 9))
    after = rows(reader, reader.partitions({"sharedroutes": "1-0"}, {"sharedroutes": "4-0"}))
    assert ids(before) == numbered(2, 4)
    assert after == before
    reader.stop()


def test_registries_come_and_go_and_keep_their_places(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 2))
    write(admin, *numbered(7, 9), key=Keys("south").changes)
    one = f'{{"url": "{redis_url}"}}'
    other = f'{{"url": "{redis_url}", "namespace": "south"}}'
    first = ChangesSource({"registries": f"[{one}]"}).streamReader(CHANGES.schema)
    both = ChangesSource({"registries": f"[{one}, {other}]"}).streamReader(CHANGES.schema)
    start = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    end = both.latestOffset(start, ReadMaxRows(4))
    assert end == {"sharedroutes": "2-0", "south": "8-0"}
    assert ids(rows(both, both.partitions(start, end))) == ["7-0", "8-0"]
    assert first.latestOffset(end, ReadAllAvailable()) == end
    first.stop()
    both.stop()


def trim(admin: redis.Redis) -> None:
    admin.xtrim(KEY, maxlen=4, approximate=False)


def empty(admin: redis.Redis) -> None:
    admin.delete(KEY)


def begin_anew(admin: redis.Redis) -> None:
    admin.delete(KEY)
    write(admin, *numbered(20, 22))


def roll_back(admin: redis.Redis) -> None:
    admin.delete(KEY)
    write(admin, *numbered(1, 3))


def fail_over_to_one_behind(admin: redis.Redis) -> None:
    admin.delete(KEY)
    write(admin, *numbered(1, 3), *numbered(20, 21))


LOSSES = [
    (trim, "trimmed", ("5-0", "7-0", "trimmed"), numbered(7, 10)),
    (empty, "emptied", ("5-0", "", "emptied"), []),
    (begin_anew, "emptied", ("5-0", "20-0", "emptied"), numbered(20, 22)),
    (roll_back, "rolled back", ("5-0", "", "rolled back"), []),
    (fail_over_to_one_behind, "rolled back", ("5-0", "20-0", "rolled back"), numbered(20, 21)),
]


of_losses = pytest.mark.parametrize(
    ("happens", "why", "told", "left"), LOSSES, ids=lambda value: getattr(value, "__name__", "")
)


@of_losses
def test_what_was_lost_is_an_error_that_says_what_is_there(
    redis_url: str, admin: redis.Redis, happens: Any, why: str, told: Any, left: Any
) -> None:
    write(admin, *numbered(1, 10))
    happens(admin)
    reader = stream(redis_url)
    expected = (
        rf"registry sharedroutes: no change stands at 5-0 any more.*the stream was {why}.*mark the loss"
    )
    with pytest.raises(ChangesLost, match=expected):
        reader.latestOffset({"sharedroutes": "5-0"}, ReadMaxRows(10))
    with pytest.raises(ChangesLost, match=expected):  # a batch that is repeated after a restart
        rows(reader, reader.partitions({"sharedroutes": "5-0"}, {"sharedroutes": "9-0"}))
    reader.stop()


@of_losses
def test_what_was_lost_is_marked_and_reading_goes_on(
    redis_url: str, admin: redis.Redis, happens: Any, why: str, told: Any, left: list[str]
) -> None:
    write(admin, *numbered(1, 10))
    happens(admin)
    reader = stream(redis_url, onLoss="mark")
    found = [row for batch in follow(reader, {"sharedroutes": "5-0"}, ReadMaxRows(10)) for row in batch]
    assert gaps(found) == [told]
    assert ids(row for row in found if row["kind"] != GAP) == left
    write(admin, "30-0")
    end = reader.reportLatestOffset()
    last = found[-1]["change_id"] if left else "3-0" if happens is roll_back else "0-0"
    assert ids(rows(reader, reader.partitions({"sharedroutes": last}, end))) == ["30-0"]
    reader.stop()


@of_losses
def test_available_now_ends_after_a_loss(
    redis_url: str, admin: redis.Redis, happens: Any, why: str, told: Any, left: list[str]
) -> None:
    write(admin, *numbered(1, 10))
    happens(admin)
    reader = stream(redis_url, onLoss="mark")
    reader.prepareForTriggerAvailableNow()
    found = [row for batch in follow(reader, {"sharedroutes": "5-0"}, ReadMaxRows(2)) for row in batch]
    assert gaps(found) == [told]
    assert ids(row for row in found if row["kind"] != GAP) == left
    reader.stop()


def test_what_is_trimmed_while_a_batch_is_read_is_noticed(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 10))
    reader = batch(redis_url, pageEntries="2", onLoss="mark")
    (partition,) = reader.partitions()
    pages = reader.read(partition)
    found = next(pages).to_pylist()
    trim(admin)
    found += [row for page in pages for row in page.to_pylist()]
    assert gaps(found) == [("2-0", "7-0", "trimmed")]
    assert ids(row for row in found if row["kind"] != GAP) == [*numbered(1, 2), *numbered(7, 10)]


def test_an_end_that_is_gone_when_its_batch_is_read_is_noticed(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(1, 10))
    start, end = {"sharedroutes": "2-0"}, {"sharedroutes": "10-0"}
    admin.delete(KEY)
    write(admin, *numbered(1, 5))
    failing, marking = stream(redis_url), stream(redis_url, onLoss="mark")
    with pytest.raises(ChangesLost, match=r"no change stands at 10-0 any more.*rolled back"):
        rows(failing, failing.partitions(start, end))
    found = rows(marking, marking.partitions(start, end))
    assert ids(row for row in found if row["kind"] != GAP) == numbered(3, 5)
    assert gaps(found) == [("5-0", "", "rolled back")]
    failing.stop()
    marking.stop()


def test_a_position_at_the_end_of_a_stream_that_was_emptied_by_trimming_lost_nothing(
    redis_url: str, admin: redis.Redis
) -> None:
    write(admin, *numbered(1, 10))
    admin.xtrim(KEY, maxlen=0, approximate=False)
    reader = stream(redis_url)
    start = {"sharedroutes": "10-0"}
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    reader.stop()


@pytest.mark.parametrize("position", ["3-0", "99-0"])
def test_a_batch_from_before_what_is_left_or_after_the_end_is_an_error_or_marked(
    redis_url: str, admin: redis.Redis, position: str
) -> None:
    write(admin, *numbered(1, 10))
    trim(admin)
    with pytest.raises(ChangesLost, match=f"no change stands at {position}"):
        all_rows(redis_url, startingPosition=position)
    with pytest.raises(ChangesLost, match=f"no change stands at {position}"):
        stream(redis_url, startingPosition=position).initialOffset()
    found = all_rows(redis_url, startingPosition=position, onLoss="mark")
    assert [gap[0] for gap in gaps(found)] == [position]
    assert len(found) == (5 if position == "3-0" else 1)


def test_a_time_before_the_first_change_ever_is_the_beginning(redis_url: str, admin: redis.Redis) -> None:
    write(admin, *numbered(5, 7))
    assert ids(all_rows(redis_url, startingPosition="2-0")) == numbered(5, 7)


def test_what_cannot_be_read_is_a_row_or_an_error(redis_url: str, admin: redis.Redis) -> None:
    write(admin, "1-0")
    write(admin, "2-0", record=b"garbage")
    admin.xadd(KEY, {"x": "foreign"}, id="3-0")
    write(admin, "4-0")
    found = all_rows(redis_url)
    assert [row["problem"] is None for row in found] == [True, False, False, True]
    assert [row["record"] for row in found] == [None, "garbage", None, None]
    with pytest.raises(CorruptData, match="entry 2-0"):
        all_rows(redis_url, onCorrupt="fail")


def test_a_stream_key_of_another_type_is_named(
    redis_url: str, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    admin.set(KEY, "foreign")
    foreign_keys.append(KEY)
    with pytest.raises(CorruptData, match=r"\{sharedroutes\}:changes: holds another type"):
        all_rows(redis_url)


def test_a_store_that_is_away_is_an_error() -> None:
    with pytest.raises(StoreUnavailable):
        all_rows(f"redis://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"startingPosition": "yesterday"}, "startingPosition: 'yesterday' is not earliest, latest or an id"),
        ({"startingPosition": "1790000000000"}, "is not earliest, latest or an id such as"),
        ({"startingPosition": "{"}, "startingPosition: is no JSON"),
        ({"startingPosition": '{"north": "1-0"}'}, "there is no registry 'north', only sharedroutes"),
        ({"startingPosition": '{"sharedroutes": 7}'}, "startingPosition: 7 is not"),
        ({"endingPosition": "earliest"}, "endingPosition: 'earliest' is not latest or an id"),
        ({"partitions": "0"}, "partitions: 0 is not within"),
        ({"maxChangesPerTrigger": "many"}, "maxChangesPerTrigger: 'many' is not a whole number"),
        ({"onLoss": "ignore"}, "onLoss: 'ignore' is none of fail, mark"),
        ({"onCorrupt": "drop"}, "onCorrupt: 'drop' is none of quarantine, fail"),
        ({"pageEntries": "-1"}, "pageEntries: -1 is not within"),
        ({"maxRows": "1"}, "there is no option 'maxrows'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(BadOption, match=f"route_changes: .*{problem}"):
        batch("redis://127.0.0.1:1", **options)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadOption, match="endingPosition: a stream has no end"):
        stream("redis://127.0.0.1:1", endingPosition="5-0")
