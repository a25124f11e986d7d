"""Says in a sentence why a job on Spark failed: Spark's own errors are pages long."""

from __future__ import annotations

import re
from typing import Final

from .errors import BadOption, ChangesLost, PipelineError

_OURS: Final = re.compile(r"^(?:E\s+)?(sharedroutes\.[\w.]+): (.+)$", re.MULTILINE)
_CAUSE: Final = re.compile(r"^(?:Caused by)?: [\w.$]+: (.+)$", re.MULTILINE)
_DISK_FULL: Final = ("No space left on device", "Disk quota exceeded", "File too large")
_AWAY: Final = ("StoreUnavailable", "StoreTimeout")
_AS_THEY_ARE: Final[dict[str, type[PipelineError]]] = {of.__name__: of for of in (BadOption, ChangesLost)}
_MODULE: Final = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)
_NOTHING: Final = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE")
_LONGEST: Final = 300


def store_is_away(error: BaseException) -> bool:
    """Whether a query failed because the registry's store could not be reached."""
    return _ours(error)[0] in _AWAY


def missing_path(error: BaseException) -> str | None:
    """Return the path at which Spark found nothing; None when it failed for another reason."""
    found = _NOTHING.search(str(error))
    return found[1] if found is not None else None


def failure(error: BaseException, job: str, kind: type[PipelineError] = PipelineError) -> PipelineError:
    """Return why a job, such as `the report`, failed: an error of that kind, or one that is known."""
    ours, reason = _ours(error)
    text = str(error)
    if ours in _AS_THEY_ARE:
        return _AS_THEY_ARE[ours](reason)
    full = next((sign for sign in _DISK_FULL if sign in text), None)
    if full is not None:
        return kind(f"{job} could not write: {full}; make room and start it again")
    lacking = _MODULE.search(text)
    if lacking is not None:
        return kind(
            f"{job} failed: Python has no {lacking[1]} where Spark runs it: install the extra spark there"
        )
    path = missing_path(error)
    if path is not None:
        return kind(f"{job} failed: there is nothing at {path}")
    return kind(f"{job} failed: {reason or _cause(text) or repr(error)}")


def _ours(error: BaseException) -> tuple[str, str]:
    """Return the class and the message of the last error of ours in the text; empty when there is none."""
    found = _OURS.findall(str(error))
    if not found:
        return "", ""
    kind, reason = found[-1]
    return kind.rpartition(".")[2], reason


def _cause(text: str) -> str:
    """Return what Java says was the cause of it all, or else the first line."""
    causes = _CAUSE.findall(text)
    return (causes[-1] if causes else text.strip().partition("\n")[0])[:_LONGEST]
