"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharedroutes.registry import RouteStore


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    with RouteStore.from_url(redis_url) as store:
        yield store
