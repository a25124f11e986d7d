"""The change stream in bulk: undecoded, by range, and honest about what is lost."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import HistoryBounds, InvalidInput, RouteStore, codec, plans
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import HistoryRange
from tests.fix_redis import Store
from tests.registry.builders import broker, topics

KEY = Keys("sharedroutes").changes


@pytest.fixture
def stream(admin: redis.Redis) -> list[str]:
    """Return the ids of ten entries: 1-0 to 10-0."""
    for number in range(1, 11):
        admin.xadd(KEY, {"c": f"record {number}"}, id=f"{number}-0")
    return [f"{number}-0" for number in range(1, 11)]


async def test_history_is_what_changes_since_tells_undecoded(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.unregister(held)
    page = await store.history()
    told = (await store.changes_since()).changes
    assert [entry_id.decode() for entry_id in page.ids] == [change.change_id for change in told]
    assert page.records == [codec.encode_change(change) for change in told]
    assert (page.lost, page.complete) == (False, True)


async def test_a_range_excludes_where_it_begins_and_includes_where_it_ends(
    store: Store, stream: list[str]
) -> None:
    page = await store.history("3-0", "6-0")
    assert page.ids == [b"4-0", b"5-0", b"6-0"]
    assert page.records == [b"record 4", b"record 5", b"record 6"]
    assert not page.lost


@pytest.mark.parametrize("limit", [1, 3, 5, 9, 10, 11])
async def test_pages_hold_at_most_the_limit_and_together_everything_once(
    store: Store, stream: list[str], limit: int
) -> None:
    after, found = plans.ORIGIN, list[bytes]()
    while True:
        page = await store.history(after, "10-0", limit)
        assert len(page.ids) <= limit
        assert not page.lost
        found += page.ids
        if page.complete:
            break
        after = page.ids[-1].decode()
    assert [entry_id.decode() for entry_id in found] == stream


async def test_a_page_says_when_the_entry_that_it_follows_is_gone(
    store: Store, stream: list[str], admin: redis.Redis
) -> None:
    admin.xtrim(KEY, maxlen=6, approximate=False)
    page = await store.history("3-0", limit=2)
    assert (page.ids, page.lost, page.complete) == ([b"5-0", b"6-0"], True, False)
    assert not (await store.history("5-0")).lost
    admin.delete(KEY)
    page = await store.history("5-0")
    assert (page.ids, page.lost, page.complete) == ([], True, True)


async def test_entries_that_somebody_else_wrote_have_no_record_or_the_one_in_its_field(
    store: Store, admin: redis.Redis
) -> None:
    admin.xadd(KEY, {"x": "foreign"}, id="1-0")
    admin.xadd(KEY, {"x": "more", "c": "record"}, id="2-0")
    assert (await store.history()).records == [None, b"record"]


async def test_several_ranges_are_read_in_one_round_trip(store: Store, stream: list[str]) -> None:
    pages = await store.run(plans.history(store.keys, HistoryRange("0-0", "+", 1), HistoryRange("8-0")))
    assert [page.ids for page in pages] == [[b"1-0"], [b"9-0", b"10-0"]]


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (HistoryRange("$"), "after"),
        (HistoryRange("1"), "after"),
        (HistoryRange("1-0", "-"), "until"),
        (HistoryRange(limit=0), "limit"),
    ],
)
async def test_a_range_that_makes_no_sense_is_refused(store: Store, wanted: HistoryRange, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        await store.run(plans.history(store.keys, wanted))


async def test_a_stream_that_is_not_there_has_no_bounds(store: Store) -> None:
    assert await store.history_bounds() == HistoryBounds()


async def test_the_bounds_tell_what_is_there_and_what_was(
    store: Store, stream: list[str], admin: redis.Redis
) -> None:
    written = None if str(admin.info("server")["redis_version"]).startswith("6.") else 10
    admin.xtrim(KEY, maxlen=6, approximate=False)
    found = await store.history_bounds()
    assert (found.first_id, found.last_id, found.last_generated_id) == ("5-0", "10-0", "10-0")
    assert (found.entries, found.written) == (6, written)
    admin.xtrim(KEY, maxlen=0, approximate=False)
    assert await store.history_bounds() == HistoryBounds(last_generated_id="10-0", entries=0, written=written)


@pytest.mark.parametrize("protocol", [2, 3])
def test_bounds_are_read_in_either_protocol(redis_url: str, stream: list[str], protocol: int) -> None:
    with RouteStore.from_url(f"{redis_url}?protocol={protocol}") as store:
        assert store.history_bounds().last_id == "10-0"


def test_a_server_before_redis_7_does_not_tell_how_many_were_written() -> None:
    plan = plans.history_bounds(Keys("sharedroutes"))
    next(plan)
    entry = [b"1-0", [b"c", b"record"]]
    reply = [b"length", 1, b"last-generated-id", b"1-0", b"first-entry", entry, b"last-entry", entry]
    with pytest.raises(StopIteration) as done:
        plan.send([reply])
    assert done.value.value == HistoryBounds("1-0", "1-0", "1-0", 1, None)


async def test_the_newest_change_up_to_an_id_is_found(store: Store, stream: list[str]) -> None:
    for until, found in (("0-0", "0-0"), ("4-0", "4-0"), ("4-7", "4-0"), ("99-0", "10-0")):
        assert await store.run(plans.last_change_id(store.keys, until)) == found
