"""Tables and one page that tell what happened."""

from .building import check_report_folder, write_report
from .gathering import ANSWERS, History, check_until

__all__ = ["ANSWERS", "History", "check_report_folder", "check_until", "write_report"]
