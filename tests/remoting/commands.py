"""Any command, for the properties that hold for all of them."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from sharedroutes.remoting import LanguageCode, RemotingCommand, SerializeType

_INTS: Final = st.integers(-(2**31), 2**31 - 1)
_SHORTS: Final = st.integers(-(2**15), 2**15 - 1)
_TEXT: Final = st.text(max_size=20)
_WORDS: Final = st.text(min_size=1, max_size=20)  # nothing means null in a binary header

_JSON: Final = st.builds(
    RemotingCommand,
    code=_INTS,
    language=st.sampled_from(LanguageCode),
    version=_INTS,
    opaque=_INTS,
    flag=_INTS,
    remark=st.none() | _TEXT,
    ext_fields=st.none() | st.dictionaries(_TEXT, _TEXT, max_size=5),
    body=st.binary(max_size=100),
    serialize_type=st.just(SerializeType.JSON),
)
_BINARY: Final = st.builds(
    RemotingCommand,
    code=_SHORTS,
    language=st.sampled_from(LanguageCode),
    version=_SHORTS,
    opaque=_INTS,
    flag=_INTS,
    remark=st.none() | _WORDS,
    ext_fields=st.none() | st.dictionaries(_WORDS, _WORDS, min_size=1, max_size=5),
    body=st.binary(max_size=100),
    serialize_type=st.just(SerializeType.ROCKETMQ),
)

COMMANDS: Final = _JSON | _BINARY
