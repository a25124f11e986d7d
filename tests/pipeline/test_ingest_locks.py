"""One job of a kind works below an `out` at a time, wherever anything can be locked."""

from __future__ import annotations

import io
import logging
import secrets
from pathlib import Path

import pytest

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.ingest.files import HadoopFiles, only_one

OUT = "hdfs://host/routes"
BUCKET = "s3a://bucket/routes"


class OnDisk(HadoopFiles):
    scheme = "file"

    def __init__(self) -> None:
        """Need no Spark."""

    def local(self, path: str, /) -> Path | None:
        return Path(path)

    def open_alone(self, path: str) -> io.BytesIO | None:
        raise AssertionError(path)


class Leases(OnDisk):
    """Gives a file to who asks when it is closed, and only after it was asked for so often."""

    scheme = "hdfs"

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.opened: dict[str, io.BytesIO] = {}

    def local(self, _: str, /) -> Path | None:
        return None

    def open_alone(self, path: str) -> io.BytesIO | None:
        self.refusals -= 1
        if self.refusals >= 0 or (path in self.opened and not self.opened[path].closed):
            return None
        self.opened[path] = io.BytesIO()
        return self.opened[path]


class ObjectStore(OnDisk):
    scheme = "gs"

    def local(self, _: str, /) -> Path | None:
        return None

    def has_tags(self, _: str, /) -> bool:
        return False


class Tagged(ObjectStore):
    """An object store as one process sees it; another one, if there is one, holds its lock meanwhile."""

    scheme = "s3a"

    def __init__(self, tags: dict[str, str], living: HadoopFiles | None = None) -> None:
        self.tags = tags
        self.living = living

    def has_tags(self, _: str, /) -> bool:
        return True

    def tag(self, path: str) -> str:
        if self.living is not None:
            self.living.still_alone()
        return self.tags.get(path, "")

    def swap(self, path: str, tag: str) -> str:
        if self.tags.get(path, "") != tag:
            return ""
        self.tags[path] = secrets.token_hex()
        return self.tags[path]

    def delete(self, path: str) -> None:
        del self.tags[path]


def test_a_second_one_on_this_machine_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    with (
        only_one("ingest", OnDisk(), str(tmp_path)),
        only_one("compaction", OnDisk(), str(tmp_path)),
        pytest.raises(PipelineError, match="another ingest works below"),
        only_one("ingest", OnDisk(), str(tmp_path)),
    ):
        pass
    with only_one("ingest", OnDisk(), str(tmp_path)):
        pass


def test_a_second_one_on_hdfs_is_refused_until_the_first_ends() -> None:
    files = Leases()
    with (
        only_one("ingest", files, OUT),
        only_one("compaction", files, OUT),
        pytest.raises(PipelineError, match=f"another ingest works below {OUT}: stop it"),
        only_one("ingest", files, OUT, lease_s=0.0),
    ):
        pass
    assert set(files.opened) == {f"{OUT}/_locks/ingest", f"{OUT}/_locks/compaction"}
    with only_one("ingest", files, OUT, lease_s=0.0):
        pass


def test_the_lease_of_one_that_was_killed_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with only_one("ingest", Leases(refusals=1), OUT):
        pass
    assert "or was killed: waiting 90 s for it" in caplog.text


def test_where_nothing_can_be_locked_there_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with only_one("ingest", ObjectStore(), "gs://bucket/routes"):
        pass
    assert "have no second ingest below gs://bucket/routes" in caplog.text


def test_a_second_one_on_s3_is_refused_while_the_first_holds_its_lock() -> None:
    tags: dict[str, str] = {}
    first = Tagged(tags)
    with (
        only_one("ingest", first, BUCKET),
        only_one("compaction", Tagged(tags), BUCKET),
        pytest.raises(PipelineError, match=f"another ingest works below {BUCKET}: stop it"),
        only_one("ingest", Tagged(tags, first), BUCKET, lease_s=0.03),
    ):
        pass
    first.still_alone()
    assert tags == {}
    with only_one("ingest", Tagged(tags), BUCKET):
        pass


def test_one_on_s3_that_holds_its_lock_no_longer_is_followed_and_publishes_nothing_more() -> None:
    tags: dict[str, str] = {}
    first, second = Tagged(tags), Tagged(tags)
    with only_one("ingest", first, BUCKET), only_one("ingest", second, BUCKET, lease_s=0.0):
        for _ in range(2):
            with pytest.raises(PipelineError, match=f"another ingest works below {BUCKET}"):
                first.still_alone()
        second.still_alone()
    assert tags == {}


def test_of_two_on_s3_that_find_no_lock_one_has_it() -> None:
    tags: dict[str, str] = {}

    class Slow(Tagged):
        def tag(self, path: str) -> str:
            found = super().tag(path)
            if not tags:
                Tagged(tags).swap(path, "")  # another one was faster
            return found

    with (
        pytest.raises(PipelineError, match="another ingest"),
        only_one("ingest", Slow(tags), BUCKET, lease_s=0.0),
    ):
        raise AssertionError
