"""Every figure: a function from the findings to drawings, none where the records do not allow it."""

from adept.report.drawings.ablations import ablations
from adept.report.drawings.aggregates import (
    aggregates,
    performance_profiles,
    probability,
    score_against_compute,
    training_and_overhead,
)
from adept.report.drawings.choices import decisions, decisions_per_task
from adept.report.drawings.learning import aggregate_curves, curves_by_scheduler, learning_curves
from adept.report.drawings.tasks import compute_by_phase, score_and_overhead_per_task
from adept.report.figures import Draw

DRAWINGS: tuple[Draw, ...] = (
    training_and_overhead,
    aggregate_curves,
    score_against_compute,
    aggregates,
    probability,
    performance_profiles,
    compute_by_phase,
    score_and_overhead_per_task,
    learning_curves,
    curves_by_scheduler,
    decisions,
    decisions_per_task,
    ablations,
)
