"""The line that an operator pastes into Redis holds what was asked for, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from sharedroutes.registry import InvalidInput
from sharedroutes.registry.acl import Role, acl_rules


@pytest.mark.parametrize(
    "options",
    [
        {"namespace": "a b"},
        {"user": "two words"},
        {"user": ""},
        {"user": "a'b"},
        {"password": "bare"},
        {"password": ">two words"},
        {"password": "#abc"},
        {"password": "nopass"},
        {"database": -1},
    ],
    ids=str,
)
def test_what_would_break_out_of_the_line_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        acl_rules(**{"namespace": "blue", "role": Role.READER, **options})
