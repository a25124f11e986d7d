"""Reading JSON member by member: the same as reading it at once, however it is cut into pieces."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.broker_agent.rocketmq.json_members import JsonText

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('ab"\\é\n', max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)
CHUNKS = st.integers(1, 40)


def walked(content: bytes, chunk_bytes: int = 65_536) -> Any:
    """Return the value, with the members of the outer objects taken one by one."""
    text = JsonText(content, chunk_bytes=chunk_bytes)
    found = _walked(text, 2)
    text.end()
    return found


def _walked(text: JsonText, levels: int) -> Any:
    if not levels or not text.at_object():
        return text.value()
    return {key: _walked(text, levels - 1) for key in text.members()}


@example(
    value=0.25, chunk_bytes=1, indent=None, ascii_only=True
)  # a number that is cut off passes for another one
@example(value={"a": 1e300}, chunk_bytes=7, indent=None, ascii_only=True)
@given(VALUES, CHUNKS, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_a_text_that_is_read_in_pieces_is_the_same_value(
    value: Any,
    chunk_bytes: int,
    indent: int | str | None,
    ascii_only: bool,  # noqa: FBT001
) -> None:
    content = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert walked(b" " + content + b"\r\n", chunk_bytes) == value


@given(st.binary(max_size=30) | st.text('{}[]:,"\\ 1e.-ntrue', max_size=20).map(str.encode), CHUNKS)
def test_what_is_no_json_is_refused_and_nothing_else(content: bytes, chunk_bytes: int) -> None:
    try:
        expected = json.loads(content.decode(), parse_constant=int)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            walked(content, chunk_bytes)
    else:
        assert walked(content, chunk_bytes) == expected


@given(VALUES, CHUNKS)
def test_no_part_of_an_object_passes_for_it(value: Any, chunk_bytes: int) -> None:
    content = orjson.dumps({"a": str(value), "b": {}})
    for length in range(len(content)):
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            walked(content[:length], chunk_bytes)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 65_536])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"a": 1,\n "b": x}', "Expecting value: line 2 column 7"),
        (b'{"a": 1,\n\n}', "expecting a property name in double quotes: line 3 column 1"),
        (b'{"a" 1}', "expecting ':': line 1 column 6"),
        (b'{"a": 1\n"b": 2}', "expecting ',': line 2 column 1"),
        (b'{"a": 1}\n\n  {', "extra data: line 3 column 3"),
        (b'{"a": NaN}', "NaN is no JSON: line 1 column 7"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number too long: line 1 column 7"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply: line 1 column 7"),
    ],
)
def test_the_place_of_a_mistake_is_told(content: bytes, problem: str, chunk_bytes: int) -> None:
    with pytest.raises(ValueError, match="^" + problem.replace("(", r"\(") + "$"):
        walked(content, chunk_bytes)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="can't decode byte 0xff"):
        walked(b'{"a": "\xff"}')
