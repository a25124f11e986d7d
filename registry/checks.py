"""Checks of values: each raises an InvalidInput that names the value and says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from .errors import InvalidInput

MAX_NAME_BYTES: Final = 255

_A_DAY_S: Final = 86_400
_LAST_PORT: Final = 65_535
_LONGEST: Final = 10**30
# Names stand in space-separated rows and in keys: no white space, no control characters.
_NAME = re.compile(r"[^\s\x00-\x1f\x7f]+")
_USUAL_BYTES = bytes(range(ord("!"), ord("~") + 1))
_USUAL_NAME = re.compile(rf"[!-~]{{1,{MAX_NAME_BYTES}}}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s\x00-\x1f\x7f:\[\]/@]+):([0-9]{1,5})")

SYSTEM_TOPICS: Final = (
    "TBW102",
    "BenchmarkTest",
    "OFFSET_MOVED_EVENT",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "SELF_TEST_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
"""What brokers make for themselves (RocketMQ: TopicValidator), beside names with SYSTEM_PREFIX in any case,
and those of a broker or of a cluster, with REPLY_TOPIC or without."""

SYSTEM_PREFIX: Final = "rmq_sys_"
REPLY_TOPIC: Final = "_REPLY_TOPIC"


def is_system_topic(topic: str, own: Collection[str]) -> bool:
    """Whether a topic is RocketMQ's own, by its name and by the names of brokers and clusters, `own`."""
    is_named = topic in SYSTEM_TOPICS or topic.removesuffix(REPLY_TOPIC) in own
    return is_named or topic.lower().startswith(SYSTEM_PREFIX)


def check_utf8(what: str, value: str) -> int:
    """Return the length of `value` in UTF-8; raise InvalidInput when it cannot be encoded."""
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what}: {value!r} cannot be written as UTF-8") from None


def check_one_of(what: str, value: object, allowed: Iterable[str]) -> None:
    """Raise InvalidInput unless `value` is one of a few words."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise InvalidInput(f"{what}: {value!r} is none of {', '.join(allowed)}")


def check_text(what: str, value: object, max_bytes: int, *, empty: bool = False) -> None:
    """Raise InvalidInput unless `value` is a string of at most `max_bytes` as UTF-8."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what}: expected a string, got {value!r}")
    if not value and not empty:
        raise InvalidInput(f"{what}: must not be empty")
    size = check_utf8(what, value)
    if size > max_bytes:
        raise InvalidInput(f"{what}: {value[:40]!r}... has {size} bytes, the limit is {max_bytes}")


def check_name(what: str, value: object) -> None:
    """Raise InvalidInput unless `value` can be the name of a topic, a broker or a cluster.

    This is the one rule for writing names and for looking them up. RocketMQ's own (TopicValidator) is for
    creating topics, and stricter: brokers register topics that it refuses, such as their own names.
    """
    if isinstance(value, str) and _USUAL_NAME.fullmatch(value):  # one look is enough, for 10,000 topics too
        return
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise InvalidInput(f"{what}: {value!r} must not be empty nor hold white space or control characters")
    check_text(what, value, MAX_NAME_BYTES)


def are_usual_names(names: Collection[str]) -> bool:
    """Whether all are names of ASCII, which is fast for many; else each is to be checked by itself."""
    is_plain = not "".join(names).encode("utf-8", "replace").translate(None, _USUAL_BYTES)
    return is_plain and "" not in names and max(map(len, names), default=0) <= MAX_NAME_BYTES


def check_broker_name(value: object, what: str = "brokerName") -> None:
    """Raise InvalidInput unless `value` can name a broker: a name without a colon."""
    check_name(what, value)
    if ":" in str(value):  # it stands between colons in keys
        raise InvalidInput(f"{what}: {value!r} must not hold a colon")


def check_names(what: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return several names; raise InvalidInput for a single string, and for what is no name."""
    names = several(values, what)
    for name in names:
        check_name(what, name)
    return names


def check_int(what: str, value: object, low: int, high: int) -> None:
    """Raise InvalidInput unless `value` is an int (not a bool) within low..high."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"{what}: expected a whole number, got {value!r}")
    if not low <= value <= high:
        shown = value if abs(value) < _LONGEST else "that number"  # Python refuses to print very long ones
        raise InvalidInput(f"{what}: {shown} is not within {low}..{high}")


def check_flag(what: str, value: object) -> None:
    """Raise InvalidInput unless `value` is a bool."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{what}: expected true or false, got {value!r}")


def whole_number(what: str, text: str) -> int:
    """Return a number that is written as Java reads one; raise InvalidInput for any other text.

    int() takes more, and refuses thousands of digits with an error of its own.
    """
    if _NUMBER.fullmatch(text) is None:
        raise InvalidInput(f"{what}: {text!r:.80} is no whole number")
    return int(text)


def check_address(what: str, value: object) -> None:
    """Raise InvalidInput unless `value` is `host:port` or `[IPv6]:port`."""
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match[2]) <= _LAST_PORT:
        raise InvalidInput(f"{what}: {value!r} is not host:port with a port within 1..65535")
    check_text(what, match[0], MAX_NAME_BYTES)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of a valid address; an IPv6 host without its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def several(names: Iterable[str], what: str = "topics") -> tuple[str, ...]:
    """Return several names; raise InvalidInput for a single string, which would be taken letter by letter."""
    if isinstance(names, str | bytes):
        raise InvalidInput(f"{what}: expected several names, got the one name {names!r}")
    if not isinstance(names, Iterable):
        raise InvalidInput(f"{what}: expected several names, got {names!r}")
    return tuple(names)


def check_seconds(what: str, value: object, low: float) -> None:
    """Raise InvalidInput unless `value` is a number of seconds within low..86400."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput(f"{what}: expected a number of seconds, got {value!r}")
    if not low <= value <= _A_DAY_S:
        raise InvalidInput(f"{what}: {value!r} is not within {low}..{_A_DAY_S} seconds")


def check_share(what: str, value: object, *, above_0: bool = False) -> None:
    """Raise InvalidInput unless `value` is a share within 0..1."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput(f"{what}: expected a share within 0..1, got {value!r}")
    if not 0 <= value <= 1 or (above_0 and value == 0):
        raise InvalidInput(f"{what}: {value!r} is not {'above 0 and ' if above_0 else ''}within 0..1")


def check_type(what: str, value: object, wanted: type) -> None:
    """Raise InvalidInput unless `value` is of a type."""
    if not isinstance(value, wanted):
        raise InvalidInput(f"{what}: expected a {wanted.__name__}, got {value!r}")


def check_method(what: str, value: object, method: str) -> None:
    """Raise InvalidInput unless `value` is an object with this method."""
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        raise InvalidInput(f"{what}: expected an object with {method}(), got {value!r}")
