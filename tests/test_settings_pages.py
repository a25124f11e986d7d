"""The tables of settings are what the code declares."""

from __future__ import annotations

import pytest

from tests.markdown import page
from tools import settings_docs


def test_the_pages_are_as_the_code_declares() -> None:
    for path, text in settings_docs.written().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run `make generate`"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (
            "agent/settings.md",
            "| `heartbeat_s` | `--heartbeat` | `5.0` | s, from 0.01 | Time between",
        ),
        (
            "agent/settings.md",
            "| `broker_credentials_json` | none: `SHAREDROUTES_BROKER_CREDENTIALS_JSON` alone",
        ),
        (
            "nameserver/settings.md",
            "| `--tls-cert` | `tls.server.certPath` | | FILE | The front's",
        ),
        (
            "nameserver/settings.md",
            "| `--read-only` | `readOnly` | `false` | `true`, `false` | Refuse",
        ),
        ("client/settings.md", "| `registry` | `RegistryConfig()` | The namespace"),
        ("client/settings.md", '| `rules` | `"sharedroutes"` | By whose rules'),
    ],
)
def test_a_row_says_name_default_and_meaning(name: str, row: str) -> None:
    assert f"\n{row}" in page(name)
