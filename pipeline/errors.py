"""What goes wrong in the pipeline, in words that say what to do."""

from __future__ import annotations

__all__ = ["BadOption", "BadRows", "ChangesLost", "JavaMissing", "PipelineError", "TargetRefused"]


class PipelineError(Exception):
    """The parent of the pipeline's own errors."""


class JavaMissing(PipelineError):
    """There is no Java, or one that Spark does not run on; the message says what to install."""


class BadOption(PipelineError, ValueError):
    """An option of a source, a sink or a job is unknown or has no sensible value; the message names it."""


class BadRows(PipelineError, ValueError):
    """Rows or columns that were to be loaded make no sense; the message names them; nothing was written."""


class ChangesLost(PipelineError):
    """The change stream no longer holds what was to be read next: it was trimmed, emptied or rolled back."""


class TargetRefused(PipelineError):
    """The registry does not take what was to be loaded; the message names the brokers and why."""
