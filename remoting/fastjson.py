"""JSON as fastjson writes it by default: the keys of maps from numbers are not quoted."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

# All up to a number that stands where a key does, or to the end; at once, since a text may hold millions of
# strings. A string is taken as a whole, so that nothing in it is taken for a key; one without an end reaches
# to the end of the text, so that the time stays linear.
_UP_TO_KEY: Final = re.compile(
    rb'(?P<before>(?:[^"{,]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{,](?!\s*+-?\d++\s*+:))*+(?:[{,]\s*+)?)'
    rb"(?P<number>-?\d++)?",
    re.DOTALL,
)


def loads(text: bytes | str) -> Any:
    """Return the value of a JSON text, in which keys may be numbers (they become strings).

    Raises orjson.JSONDecodeError, a ValueError, for what is not even that.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        return orjson.loads(_quoted(data))


def _quoted(data: bytes) -> bytearray:
    """Return a JSON text in which the keys are quoted; what is no JSON stays none."""
    quoted = bytearray()
    for found in _UP_TO_KEY.finditer(data):
        quoted += found["before"]
        if found["number"] is not None:
            quoted += b'"%s"' % found["number"]
    return quoted
