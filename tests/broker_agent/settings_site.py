"""A folder with broker.confs and an agent.toml, and the settings that they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.broker_agent.settings.loader import load
from sharedroutes.broker_agent.settings.sidecar_config import SidecarConfig
from sharedroutes.registry import InvalidInput

CONF: Final = (
    "brokerName=broker-{name}\nbrokerIP1=10.0.0.1\nlistenPort={port}\nstorePathRootDir=/store-{name}\n"
)
A: Final = '[[broker]]\nbroker_conf = "a.conf"\n'
B: Final = '[[broker]]\nbroker_conf = "b.conf"\n'


def loaded(
    site: Path, toml: str = "", *, flags: Mapping[str, str] | None = None, **environment: str
) -> SidecarConfig:
    """Return what agent.toml, flags and environment make; without a [[broker]] the broker is a."""
    path = site / "agent.toml"
    path.write_text(toml)
    said = {"--config": str(path), **(flags or {})}
    if "[[broker]]" not in toml:
        said.setdefault("--broker-conf", str(site / "a.conf"))
    return load(said, environment)


def problems(site: Path, toml: str = "", **given: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidInput) as caught:
        loaded(site, toml, **given)
    return tuple(str(caught.value).replace(f"{site}/", "").splitlines())


def write_brokers(folder: Path) -> Path:
    """Put the broker.conf of the brokers a and b into a folder; return it."""
    for name, port in (("a", 10911), ("b", 20911)):
        (folder / f"{name}.conf").write_text(CONF.format(name=name, port=port))
    return folder
