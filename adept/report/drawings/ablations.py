"""Ablations: methods that differ in one knob of their scheduler (c, W, eta) or in their arms alone."""

from __future__ import annotations

from typing import Any

from adept.report.curves import aggregate_curve
from adept.report.drawings.learning import BAND, ROW, rows_of
from adept.report.figures import SMOOTHING, WIDTH, Drawing, Pen, legend, panel_figure, step_axis
from adept.report.runs import Method

KNOBS = {"exploration": "c", "window": "W", "step_size": "η", "arms": "arms"}
"""What ablations are over, and the paper's letter for it."""

Group = tuple[str, list[Method]]


def settings(method: Method) -> dict[str, Any]:
    """Return what defines a method, each knob of its scheduler on its own."""
    assert method.config is not None
    values = method.config.to_dict()
    options = values.pop("scheduler_options")
    for key in ("env", "seed"):
        values.pop(key)
    return {**values, "arms": tuple(values["arms"]), **{f"option {name}": value for name, value in options.items()}}


def groups(methods: tuple[Method, ...], knob: str) -> list[Group]:
    """Return the sets of two or more adaptive methods that differ in a knob alone, and the other knobs in words."""
    key = "arms" if knob == "arms" else f"option {knob}"
    found: dict[str, list[Method]] = {}
    titles = {}
    for method in methods:
        if method.config is None or len(method.config.arms) < 2 or key not in settings(method):
            continue
        rest = {name: value for name, value in settings(method).items() if name != key}
        name = repr(sorted(rest.items()))
        others = [f"{KNOBS[entry]}={rest[f'option {entry}']:g}" for entry in ("exploration", "window", "step_size")
                  if f"option {entry}" in rest]  # fmt: skip
        arms = [] if knob == "arms" else ["{" + ",".join(map(str, rest["arms"])) + "}"]
        titles[name] = f"{method.config.scheduler} {' '.join([*arms, *others])}".strip()
        found.setdefault(name, []).append(method)
    return [(titles[name], entries) for name, entries in found.items() if len(entries) > 1]


def ablations(pen: Pen) -> list[Drawing]:
    """Draw one figure per knob: a panel for each set of methods that differ in it alone, beside the baseline."""
    comparison = pen.analysis.comparison
    drawings = []
    for knob, letter in KNOBS.items():
        sets = groups(comparison.methods, knob)
        known = [(title, [entry for entry in entries if aggregate_curve(pen.analysis, entry.name)])
                 for title, entries in sets]  # fmt: skip
        known = [(title, entries) for title, entries in known if len(entries) > 1]
        if not known:
            continue
        figure, flat, grid = panel_figure(len(known), 3, WIDTH * (0.75 if len(known) == 1 else 1.1), 2.6, sharey=True)
        rows: list[list[object]] = []
        for axes, (title, entries) in zip(flat, known, strict=True):
            for name in (comparison.baseline, *(entry.name for entry in entries)):
                if curve := aggregate_curve(pen.analysis, name):
                    pen.line(axes, name, curve.steps, curve.mean, curve.low, curve.high)
                    rows += rows_of(curve, title, name)
            axes.set_title(title)
            step_axis(axes, "environment steps")
            axes.legend(fontsize=7.5, loc="lower right")
        for row in grid:
            row[0].set_ylabel(f"score, {pen.analysis.unit('final-score')}")
        if len(known) == 1:
            flat[0].get_legend().remove()  # type: ignore[union-attr]
            legend(figure, flat[0], 2)
        caption = (
            f"Ablation over {letter}: training score over all tasks, {pen.analysis.unit('final-score')} at the end, of "
            f"methods that differ in {letter} alone; tasks count equally, {BAND}, stratified by task. "
            f"{pen.count(comparison.common_tasks)} {SMOOTHING}"
        )
        name = f"ablation-{knob.replace('_', '-')}"
        drawings.append(Drawing(name, f"Ablation over {letter}", caption, figure, ["group", "method", *ROW], rows,
                                "more"))  # fmt: skip
    return drawings
