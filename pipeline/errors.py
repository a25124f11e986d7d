"""What goes wrong in the pipeline, in words that say what to do."""

from __future__ import annotations

from typing import Self


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
