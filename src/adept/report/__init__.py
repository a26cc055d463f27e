"""Reports: statistics, figures and one self-contained page, as pure functions of the records."""

from adept.report.build import ReportOptions, build_report, check_report

__all__ = ["ReportOptions", "build_report", "check_report"]
