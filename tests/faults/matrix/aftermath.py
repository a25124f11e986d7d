"""What is left when a run ends: the keys of the server, and what the processes have logged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from sharedroutes.registry import RegistryConfig, RouteStore
from tests.faults.checker.history import Keys, Log, Writer, now_us
from tests.faults.matrix.kinds.clocks import HOUR_S
from tests.faults.matrix.stores import NAMESPACE, Store

_PATIENT: Final = RegistryConfig(call_deadline_s=15.0, connect_deadline_s=15.0)
_TRACEBACK: Final = "Traceback (most recent call last)"


def write_keys(store: Store, history: Writer) -> None:
    """Write down all keys with types and TTLs, and what `verify` finds."""
    server = store.primary()
    assert server is not None, "no primary in the end"
    admin: Any = store.admin(server)
    names = sorted(admin.scan_iter(count=1_000))
    keys = tuple((name.decode(), admin.type(name).decode(), _ttl(admin.pttl(name))) for name in names)
    with RouteStore.from_url(store.url, _PATIENT) as registry:
        found = tuple(str(difference) for difference in registry.admin.verify())
    gone = -2
    history.write(Keys(namespace=NAMESPACE, keys=tuple(key for key in keys if key[2] != gone), verify=found))


def _ttl(pttl: int) -> int | None:
    return None if pttl == -1 else pttl


class Line(NamedTuple):
    """What a process logged, with its traceback if there is one."""

    level: str
    text: str
    at_s: float | None
    """Seconds since 1970, as the process says it; None = it does not."""


def lines_of(path: Path) -> Iterator[Line]:
    """Yield what stands in a log: objects of our processes, and text of everything else."""
    rest = []
    for text in path.read_text(errors="replace").splitlines():
        try:
            line = orjson.loads(text)
            at_s = datetime.fromisoformat(line["time"]).timestamp()
            told = "\n".join(filter(None, (line["message"], line.get("error"))))
            yield Line(str(line["level"]).upper(), told, at_s)
        except (ValueError, KeyError, TypeError):
            rest.append(text)
    if any(_TRACEBACK in text for text in rest):
        yield Line("ERROR", "\n".join(rest), None)


def write_logs(folder: Path, history: Writer, began_us: int) -> None:
    """Write down what all processes have logged since the begin of the run."""
    since_1970_s = time.time() - time.monotonic()
    for path in sorted(folder.glob("*.log")):
        for level, text, at_s in lines_of(path):
            at_us = 0 if at_s is None else _within(began_us, round((at_s - since_1970_s) * 1e6))
            history.write(Log(at_us=at_us, process=path.stem, level=level, text=text))


def _within(began_us: int, at_us: int) -> int:
    """Return a time, without the shift of the clock that told it; 0 = it is of no time of the run."""
    times_us = (at_us + shift_s * 1_000_000 for shift_s in (0, HOUR_S, -HOUR_S))
    return next((time_us for time_us in times_us if began_us < time_us < now_us()), 0)
