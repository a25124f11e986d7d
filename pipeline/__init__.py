"""The data pipeline on Spark: the registry's history read, kept, and answered."""

from .errors import PipelineError

try:
    from .session import SessionConfig, session
    from .sources import register
except ModuleNotFoundError:
    from ..extras import check

    check("the pipeline", "spark")
    raise

__all__ = ["PipelineError", "SessionConfig", "register", "session"]
