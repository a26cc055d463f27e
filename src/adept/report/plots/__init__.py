"""Every figure: a function from the findings to drawings, none where the records do not allow it."""

from adept.report.figures import Draw
from adept.report.plots import axis, epochs, scores

DRAWINGS: tuple[Draw, ...] = (*axis.DRAWINGS, *scores.DRAWINGS, *epochs.DRAWINGS)
