"""Tables and one page that tell what happened."""

from .building import ANSWERS, write_report
from .gathering import History

__all__ = ["ANSWERS", "History", "write_report"]
