"""Every figure: a function from the findings to drawings, none where the records do not allow it."""

from adept.report.plots import epochs, scores

DRAWINGS = (*scores.DRAWINGS, *epochs.DRAWINGS)
