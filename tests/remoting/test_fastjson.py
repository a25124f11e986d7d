"""JSON with numbers as keys."""

from __future__ import annotations

import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.remoting import fastjson
from tests.broker_agent.speaking_broker import legacy_json

LIKE_JSON = st.text(alphabet='{}[],:"\\ 0123456789-ab\n\u00e9\U0001f680')
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | LIKE_JSON
KEYS = st.integers(-(2**63), 2**63 - 1) | LIKE_JSON
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


def _quoted(value: Any) -> Any:
    """Return the value with all keys as strings."""
    if isinstance(value, dict):
        return {str(key): _quoted(item) for key, item in value.items()}
    return [_quoted(item) for item in value] if isinstance(value, list) else value


@given(VALUES)
def test_what_fastjson_writes_is_read(value: Any) -> None:
    assert fastjson.loads(legacy_json(value)) == _quoted(value)


@given(VALUES)
def test_it_is_read_from_text_too(value: Any) -> None:
    assert fastjson.loads(legacy_json(value).decode()) == _quoted(value)


@given(VALUES)
def test_standard_json_is_read_as_everybody_reads_it(value: Any) -> None:
    text = orjson.dumps(_quoted(value), option=orjson.OPT_INDENT_2)
    assert fastjson.loads(text) == orjson.loads(text)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"{1}", b"{1:}", b"[1:2]", b"{a:1}", b'{1:"', b'{1:"\\', b"{1:2,}", b"{1.5:2}", b"{'a':1}"],
)
def test_what_is_no_json_is_said_to_be_none(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        fastjson.loads(text)


def test_spaces_around_keys_do_no_harm() -> None:
    assert fastjson.loads(b'{ 0 : "a" ,\n\t1:"b" }') == {"0": "a", "1": "b"}


def test_a_string_without_an_end_takes_no_longer_than_its_length() -> None:
    # The test ends by its time limit where the search begins again at each of the quotes.
    with pytest.raises(ValueError, match=r"\w"):
        fastjson.loads(b"{0:" + b'\\"' * 1_000_000)


@pytest.mark.parametrize("text", [b'{"":"",' * 300_000, b'{"a":{0:"",' + b'"":"",' * 300_000])
def test_what_is_no_json_takes_little_memory(text: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"\w"):
            fastjson.loads(text)
        assert tracemalloc.get_traced_memory()[1] < 16 * len(text)  # orjson reserves 12
    finally:
        tracemalloc.stop()
