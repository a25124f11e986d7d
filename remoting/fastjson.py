"""JSON as fastjson writes it by default: the keys of maps from numbers are not quoted."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

# A string as a whole, so that nothing in it is taken for a key; one without an end reaches to the end of the
# text, so that the time stays linear. Or a number that stands where a key does.
_STRING_OR_KEY: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
    rb"|(?P<before>[{,]\s*+)(?P<number>-?\d++)(?P<after>\s*+:)",
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
        return orjson.loads(_STRING_OR_KEY.sub(_quoted, data))


def _quoted(found: re.Match[bytes]) -> bytes:
    if found["number"] is None:
        return found[0]
    return b'%s"%s"%s' % (found["before"], found["number"], found["after"])
