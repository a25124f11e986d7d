"""Tables and one page that tell what happened."""

from .building import ANSWERS, check_report_folder, write_report
from .gathering import History, check_until

__all__ = ["ANSWERS", "History", "check_report_folder", "check_until", "write_report"]
