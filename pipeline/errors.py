"""What goes wrong in the pipeline, in a sentence that says what to do: Spark's own errors are pages long."""

from __future__ import annotations

import re
from typing import Final, Self


class PipelineError(Exception):
    """The parent of the pipeline's own errors."""


class JavaMissing(PipelineError):
    """There is no Java, or one that Spark does not run on; the message says what to install."""


class BadOption(PipelineError, ValueError):
    """An option of a source, a sink or a job is unknown or has no sensible value; the message names it.

    `option` is its name there and `what` the rest of the message, for whoever has another name for it, as the
    command line has; both are empty where they do not survive a way through Spark.
    """

    def __init__(self, message: str, *, option: str = "", what: str = "") -> None:
        super().__init__(message)
        self.option = option
        self.what = what

    @classmethod
    def of(cls, job: str, option: str, what: str) -> Self:
        """Return the error about an option of a job, or of a part of one."""
        return cls(f"{job}: {option}: {what}", option=option, what=what)


class BadRows(PipelineError, ValueError):
    """Rows or columns that were to be loaded make no sense; the message names them; nothing was written."""


class ChangesLost(PipelineError):
    """The change stream no longer holds what was to be read next: it was trimmed, emptied or rolled back."""


class IngestFailed(PipelineError):
    """An ingest or a compaction ended; what is published stays, and the next start goes on from there."""


class TargetRefused(PipelineError):
    """The registry does not take what was to be loaded; the message names the brokers and why."""


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
    if full := next((sign for sign in _DISK_FULL if sign in text), None):
        return kind(f"{job} could not write: {full}; make room and start it again")
    if lacking := _MODULE.search(text):
        return kind(
            f"{job} failed: Python has no {lacking[1]} where Spark runs it: install the extra spark there"
        )
    if path := missing_path(error):
        return kind(f"{job} failed: there is nothing at {path}")
    found = kind(f"{job} failed: {reason or _cause(text) or repr(error)}")
    if not reason:
        found.add_note("Spark's own log says more: a command keeps it with --spark-log FILE")
    return found


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
    return (causes[-1] if causes else text.strip().partition("\n")[0])[:_LONGEST].rstrip(".")
