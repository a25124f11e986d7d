"""The reading of .properties, beside the library that did it before."""

from __future__ import annotations

import javaproperties
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.remoting.properties import MalformedEscape, Property, parse

_PIECES = [
    *("\\", "\\\\", "\\u", "\\u00e9", "\\u00E", "\\uD83D", "\\uDE00", "\\uuuuu", "\\u 123", "\\u1_23"),
    *("\n", "\r", "\r\n", "\\\n", "\\\r\n  ", "\\\r", " ", "\t", "\f", "\x0b", "\x85", "\xa0"),
    *("=", ":", "\\=", "\\:", "\\ ", "#", "!", "a", "key", "\\t", "\\n", "\\r", "\\f", "\\z", "\xe9", "0"),
]
_CONTENTS = st.lists(st.sampled_from(_PIECES), max_size=30).map(lambda all_: "".join(all_).encode("latin-1"))


def _read(content: bytes) -> list[tuple[int, str, str] | str]:
    found: list[tuple[int, str, str] | str] = []
    try:
        found.extend(parse(content))
    except MalformedEscape as error:
        found.append(f"{error.line}: {error}")
    return found


def _read_by_the_library(content: bytes) -> list[tuple[int, str, str] | str]:
    found: list[tuple[int, str, str] | str] = []
    line = 1
    try:
        for element in javaproperties.parse(content):
            if isinstance(element, javaproperties.KeyValue):
                found.append((line, element.key, element.value))
            line += len(element.source.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
    except javaproperties.InvalidUEscapeError as error:
        found.append(f"{line}: {error}")
    return found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a=b", ("a", "b")),
        (b"a:b", ("a", "b")),
        (b"a b", ("a", "b")),
        (b" \t\fa \t = \t b ", ("a", "b ")),
        (b"a = = b", ("a", "= b")),
        (b"a", ("a", "")),
        (b"=b", ("", "b")),
        (rb"a\ \=\:b = c", ("a =:b", "c")),
        (rb"C:\\path = x", ("C", r"\path = x")),
        (rb"a = \t\n\r\f\\\z", ("a", "\t\n\r\f\\z")),
        (rb"a = \u4e2d\uD83D\uDE00", ("a", "\u4e2d\U0001f600")),
        (rb"a = \uD83D", ("a", "\ud83d")),
        (b"a = \xe9", ("a", "\xe9")),
        (b"a = b\\\n   c", ("a", "bc")),
        (b"a = b\\\n", ("a", "b")),
        (b"a = b\\\\\n", ("a", "b\\")),
        (b"a\\\n#b = c", ("a#b", "c")),
    ],
)
def test_a_property_is_read_as_java_reads_it(content: bytes, expected: tuple[str, str]) -> None:
    assert [*parse(content)] == [Property(1, *expected)]


def test_comments_and_blank_lines_say_nothing() -> None:
    assert [*parse(b"# a = 1\\\n  ! b = 2\n\n \t\f\n\\\n\nc = 3\n")] == [Property(7, "c", "3")]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_is_counted_whatever_ends_it(end: bytes) -> None:
    assert [one.line for one in parse(end.join([b"a=1", b"# no", b"b=\\", b"2", b"c=3"]))] == [1, 3, 5]


@pytest.mark.parametrize("escape", [rb"\u", rb"\u12", rb"\u12g4", rb"\u 123", rb"\u1_23", rb"\u-123"])
def test_a_malformed_escape_is_an_error_with_its_line(escape: bytes) -> None:
    found = parse(b"a = 1\n\nb = \\\n  " + escape + b"\nc = 3")
    assert next(found).key == "a"
    with pytest.raises(MalformedEscape, match=r"^Invalid \\u escape sequence: \\u") as raised:
        next(found)
    assert raised.value.line == 3
    assert str(raised.value).endswith(escape.decode())


@given(_CONTENTS | st.binary())
@example(b"\\")
@example(b"\\\\\\\n\\\na")
@example(b"\n\n\\")
def test_any_content_is_read_as_the_library_reads_it(content: bytes) -> None:
    assert _read(content) == _read_by_the_library(content)
