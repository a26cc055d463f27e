"""Reports: statistics, figures and one self-contained page, as pure functions of the records."""
