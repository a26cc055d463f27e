"""Every figure: a function from the findings to drawings, none where the records do not allow it."""

from adept.report.drawings.ablations import ablations
from adept.report.drawings.aggregates import (
    aggregates,
    performance_profiles,
    probability,
    score_against_compute,
)
from adept.report.drawings.choices import decisions, decisions_per_task
from adept.report.drawings.learning import aggregate_curves, learning_curves
from adept.report.drawings.tasks import compute_by_phase, differences
from adept.report.drawings.worth import epoch_worth, slope_and_stride
from adept.report.figures import Draw

DRAWINGS: tuple[Draw, ...] = (
    aggregate_curves,
    score_against_compute,
    differences,
    aggregates,
    probability,
    performance_profiles,
    compute_by_phase,
    learning_curves,
    epoch_worth,
    slope_and_stride,
    decisions,
    decisions_per_task,
    ablations,
)
