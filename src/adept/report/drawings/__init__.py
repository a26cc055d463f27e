"""Every figure: a function from the findings to drawings, none where the records do not allow it."""

from adept.report.drawings import epochs, scores
from adept.report.figures import Draw

DRAWINGS: tuple[Draw, ...] = (*scores.DRAWINGS, *epochs.DRAWINGS)
