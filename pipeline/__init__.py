"""The data pipeline on Spark: the registry's history read, kept, and answered."""

from .errors import PipelineError

try:
    from .session import SessionConfig, session
    from .sources import register
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing not in ("pyarrow", "pyspark"):
        raise
    message = f"the pipeline needs {missing}: run `pip install 'sharedroutes[spark]'`"
    raise ModuleNotFoundError(message, name=missing) from error

__all__ = ["PipelineError", "SessionConfig", "register", "session"]
