"""From the records of the study start-anywhere to its table, its answers and its figure.

    adept study start-anywhere --out results/start-anywhere --workers 2     # resumable; then: adept study pack
    python -m experiments.start_anywhere.analysis                           # curve.csv, curve.png there
    python -m experiments                                                   # the pages

The measures are those that the study's file declares, but for the untrained score, which is measured: see `UNTRAINED`.
Seeds that are not complete for a method are left out for it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adept import cost
from adept.config import Config, Execution
from adept.runs.safe_io import write_aside
from adept.studies.results import StudyResults, load_results
from adept.training import train

Array = npt.NDArray[np.float64]
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "start-anywhere"
UNTRAINED = "untrained.csv"
"""Beside the records: by task, the mean return of whole episodes without learning, and that of the runs' first scores.

The study's file takes the runs' first scores. On sparse tasks these are too high: only episodes that reach the goal end
within the first rollouts.
"""
UNTRAINED_STEPS, NO_LEARNING = 60_000, 1e-12
"""Steps of each run without learning, and its learning rate."""
FIXED, TUNED = "fixed", "x1"
RESAMPLES = 2000
GOAL, WORST_GOAL, MARGIN, COMPUTE_GOAL = 0.9, 0.75, 0.05, 0.5
"""What the study's file sets as goals."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Mean scores, update FLOPs and processor seconds of runs: methods × starts × tasks × seeds, NaN where missing."""

    methods: tuple[str, ...]
    starts: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    scores: Array
    flops: Array
    seconds: Array
    untrained: Array
    """by task"""

    def normalized(self) -> Array:
        """Return (score - untrained)/(best fixed start - untrained), the best start of each task after the fact."""
        fixed = self.scores[self.methods.index(FIXED)][..., self.complete(FIXED)]
        best = np.nanmax(np.nanmean(fixed, -1), 0)
        base = self.untrained[:, None]
        normal: Array = (self.scores - base) / (best[:, None] - base)
        return normal

    def complete(self, method: str) -> npt.NDArray[np.int64]:
        """Return the places of the seeds that a method has for every start and task."""
        whole = np.isfinite(self.scores[self.methods.index(method)]).all((0, 1))
        return np.flatnonzero(whole)


def read(results: StudyResults) -> Runs:
    """Return the runs of the study that are done."""
    names = [method.name.rsplit(".", 1) for method in results.study.methods]
    methods, starts = (tuple(dict.fromkeys(each[place] for each in names)) for place in (0, 1))
    tasks, seeds = results.study.tasks, results.study.seeds
    shape = (len(methods), len(starts), len(tasks), len(seeds))
    scores, flops, seconds = (np.full(shape, math.nan) for _ in range(3))
    for cell in results.cells:
        if cell.state != "done":
            continue
        method, start = cell.method.rsplit(".", 1)
        place = methods.index(method), starts.index(start), tasks.index(cell.task), seeds.index(cell.seed)
        curve = results.curve(cell)
        scores[place] = np.nanmean(curve["score"])
        flops[place] = update_flops(cell.config, curve)
        seconds[place] = curve["processor_seconds"][-1]
    scores_without = untrained_scores(results)
    untrained = np.array([scores_without[task][0] for task in tasks])
    return Runs(methods, starts, tasks, seeds, scores, flops, seconds, untrained)


def update_flops(config: Config, curve: Mapping[str, Array]) -> float:
    """Return the FLOPs of a run without those of sampling."""
    forward = float(curve["flops"][0]) / cost.iteration(config, float(curve["epochs_done"][0]))
    return float(curve["flops"][-1]) - forward * cost.sampling(config) * len(curve["flops"])


def untrained_scores(results: StudyResults) -> dict[str, tuple[float, float]]:
    """Return the mean return without learning and the mean of the runs' first scores, by task; measured once."""
    path = results.directory / UNTRAINED
    if not path.exists():
        lines = ["task,without_learning,first_scores"]
        for task in results.study.tasks:
            first = [curve["score"] for cell in results.cells if cell.task == task and cell.state == "done"
                     for curve in [results.curve(cell)]]  # fmt: skip
            heard = [float(scores[np.isfinite(scores)][0]) for scores in first]
            configs = (results.study.config(results.study.baseline, task, seed) for seed in results.study.seeds)
            without = [return_without_learning(config) for config in configs]
            lines.append(f"{task},{np.mean(without):.6g},{np.mean(heard) if heard else math.nan:.6g}")
        write_aside(path, "\n".join(lines) + "\n")
    with path.open(newline="", encoding="utf-8") as file:
        return {row["task"]: (float(row["without_learning"]), float(row["first_scores"]))
                for row in csv.DictReader(file)}  # fmt: skip


def return_without_learning(config: Config, steps: int = UNTRAINED_STEPS) -> float:
    """Return the mean return of the episodes that end within so many steps of a policy that does not change."""
    still = replace(config, steps=steps, learning_rate=NO_LEARNING, scheduler="fixed", epochs=1, monitor=False)
    records = list(train(still, Execution(device="cpu", threads=1)))
    ended = np.diff([0, *(each["episodes"] for each in records)])  # the column counts all since the start
    returns = np.array([each["episode_return"] for each in records])
    return float(np.average(returns[ended > 0], weights=ended[ended > 0]))


def iqm(values: Array) -> float:
    """Return the interquartile mean of all values."""
    ordered = np.sort(values, axis=None)
    cut = ordered.size // 4
    return float(ordered[cut : ordered.size - cut].mean())


def interval(
    table: Array, measure: Callable[[Array], float], *, tasks_too: bool, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a measure of (tasks, seeds): seeds are drawn by task, or tasks as well."""
    rng = np.random.default_rng(0)
    tasks, seeds = table.shape
    drawn = []
    for _ in range(resamples):
        rows = rng.integers(tasks, size=(tasks, 1)) if tasks_too else np.arange(tasks)[:, None]
        drawn.append(measure(table[rows, rng.integers(seeds, size=(tasks, seeds))]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


@dataclass(frozen=True)
class Point:
    """A measure with its two intervals."""

    value: float
    seeds: tuple[float, float]
    tasks: tuple[float, float]

    def __str__(self) -> str:
        both = (f" [{100 * low:.0f}, {100 * high:.0f}]" for low, high in (self.seeds, self.tasks) if math.isfinite(low))
        return f"{100 * self.value:.0f} %{''.join(both)}"


def point(table: Array, measure: Callable[[Array], float] = iqm) -> Point:
    """Return a measure of (tasks, seeds) with intervals: over seeds, if there are several, and over tasks and seeds."""
    over_seeds = interval(table, measure, tasks_too=False) if table.shape[1] > 1 else (math.nan, math.nan)
    return Point(measure(table), over_seeds, interval(table, measure, tasks_too=True))


def curves(runs: Runs) -> dict[str, dict[str, Point]]:
    """Return the IQM of the normalised score by method and start, where a method has a complete seed."""
    normal = runs.normalized()
    found: dict[str, dict[str, Point]] = {}
    for place, method in enumerate(runs.methods):
        seeds = runs.complete(method)
        if len(seeds):
            found[method] = {start: point(normal[place, index][:, seeds]) for index, start in enumerate(runs.starts)}
    return found


def against_fixed(runs: Runs, method: str) -> tuple[Point, float]:
    """Return the IQM of differences to the fixed run of the same start and seed, and the share of runs ahead of it."""
    normal = runs.normalized()
    own, fixed = runs.methods.index(method), runs.methods.index(FIXED)
    seeds = np.intersect1d(runs.complete(method), runs.complete(FIXED))
    pairs = (normal[own] - normal[fixed])[:, :, seeds]
    ahead = np.where(pairs > 0, 1.0, np.where(pairs == 0, 0.5, 0.0)).mean()
    by_task = np.moveaxis(pairs, 1, 0).reshape(len(runs.tasks), -1)
    return point(by_task), float(ahead)


def relative(runs: Runs, values: Array, method: str, starts: Sequence[str]) -> float:
    """Return the mean over tasks and starts of a cost relative to that of the preset, fixed at the tuned start."""
    preset = np.nanmean(values[runs.methods.index(FIXED), runs.starts.index(TUNED)], -1)
    own = np.nanmean(values[runs.methods.index(method)], -1)[[runs.starts.index(start) for start in starts]]
    return float(np.nanmean(own / preset))


def curve_table(runs: Runs, labels: Mapping[str, str]) -> str:
    """Return the curve over starts as Markdown."""
    lines = [
        f"| method | {' | '.join(labels.get(start, start) for start in runs.starts)} |",
        "| --- |" + " ---: |" * len(runs.starts),
    ]
    for method, points in curves(runs).items():
        cells = " | ".join(f"{100 * points[start].value:.0f} %" for start in runs.starts)
        lines.append(f"| {labels.get(method, method)} | {cells} |")
    return "\n".join(lines)


def summary_table(runs: Runs, labels: Mapping[str, str]) -> str:
    """Return what every method came to over all starts as Markdown."""
    found = curves(runs)
    lines = [
        "| method | worst start | mean over starts | of task means | against fixed, same start and seed | P(ahead) "
        "| update FLOPs from the preset | over all starts | processor time from the preset | over all starts |",
        "| --- |" + " ---: |" * 9,
    ]
    normal = runs.normalized()
    for method, points in found.items():
        worst = min(points, key=lambda start: points[start].value)
        mean = float(np.mean([each.value for each in points.values()]))
        of_tasks = float(normal[runs.methods.index(method)][..., runs.complete(method)].mean())
        paired, ahead = against_fixed(runs, method)
        lines.append(
            f"| {labels.get(method, method)} | {points[worst]} ({labels.get(worst, worst)}) | {100 * mean:.0f} % | "
            f"{100 * of_tasks:.0f} % | {'' if method == FIXED else paired} | "
            f"{'' if method == FIXED else f'{ahead:.2f}'} | "
            + " | ".join(
                f"{100 * relative(runs, values, method, starts):.0f} %"
                for values in (runs.flops, runs.seconds)
                for starts in ((TUNED,), runs.starts)
            )
            + " |"
        )
    return "\n".join(lines)


def task_table(runs: Runs, labels: Mapping[str, str]) -> str:
    """Return by task the mean over starts and the worst start of every method, in means over seeds, as Markdown."""
    methods = list(curves(runs))
    normal = runs.normalized()
    found = [normal[runs.methods.index(method)][..., runs.complete(method)].mean(-1) for method in methods]
    lines = [f"| task | {' | '.join(labels.get(method, method) for method in methods)} |",
             "| --- |" + " ---: |" * len(methods)]  # fmt: skip
    for place, task in enumerate(runs.tasks):
        cells = (f"{100 * table[:, place].mean():.0f} % ({100 * table[:, place].min():.0f} %)" for table in found)
        lines.append(f"| {task.split('/')[1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def answers(runs: Runs) -> list[tuple[str, str, str]]:
    """Return the goals of the study's file, what was measured, and whether it was reached; one seed does not judge."""
    found = curves(runs)
    rows = []
    rivals = [method for method in found if not method.startswith("hindsight")]
    for method in (each for each in found if each.startswith("hindsight") and len(runs.complete(each)) > 1):
        points = found[method]
        least = min(points.values(), key=lambda each: each.value)
        mean = float(np.mean([each.value for each in points.values()]))
        best = max((float(np.mean([each.value for each in found[rival].values()])) for rival in rivals), default=0.0)
        paired = point((runs.normalized()[runs.methods.index(method)] - runs.normalized()[runs.methods.index(FIXED)])[
            runs.starts.index(TUNED)
        ][:, runs.complete(method)])  # fmt: skip
        rows += [
            (f"{method}: at least {GOAL:.0%} at every start", str(least), _verdict(least.value >= GOAL)),
            (f"{method}: at least {WORST_GOAL:.0%} at the worst start", str(least),
             _verdict(least.value >= WORST_GOAL)),
            (f"{method}: ahead of every rival in the mean over starts", f"{mean:.0%}, best rival {best:.0%}",
             _verdict(mean > best)),
            (f"{method}: from the tuned start no loss beyond {MARGIN:.0%}", str(paired),
             _verdict(paired.seeds[0] > -MARGIN)),
        ]  # fmt: skip
        if method.endswith("compute"):
            spent = relative(runs, runs.flops, method, runs.starts)
            rows.append((f"{method}: at most half of the preset's update FLOPs", f"{spent:.0%}",
                         _verdict(spent <= COMPUTE_GOAL)))  # fmt: skip
    return rows


def declared(runs: Runs, scores: Mapping[str, tuple[float, float]], labels: Mapping[str, str]) -> str:
    """Return the means over starts if untrained is what the study's file takes, the runs' first scores."""
    others = replace(runs, untrained=np.array([scores[task][1] for task in runs.tasks]))
    means = (f"{labels.get(method, method)} {100 * np.mean([each.value for each in points.values()]):.0f} %"
             for method, points in curves(others).items())  # fmt: skip
    return (
        "The untrained score is that of a policy that does not learn. The study's file takes the runs' first scores, "
        "which are too high on sparse tasks, where only episodes that reach the goal end early; with those, means over "
        f"starts are {', '.join(means)} (`{UNTRAINED}`)."
    )


def _verdict(reached: bool) -> str:
    return "reached" if reached else "not reached"


def draw(runs: Runs, labels: Mapping[str, str], path: Path) -> None:
    """Draw the curve over starts: a line for each method, intervals over seeds as bands."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rates = [start for start in runs.starts if not start.startswith("k")]
    epochs = [start for start in runs.starts if start.startswith("k")]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, width_ratios=(len(rates), len(epochs)))
    for method, points in curves(runs).items():
        for axis, starts in zip(axes, (rates, epochs), strict=True):
            values = [100 * points[start].value for start in starts]
            bounds = np.array([points[start].seeds for start in starts]).T * 100
            (line,) = axis.plot(range(len(starts)), values, marker="o", label=labels.get(method, method))
            axis.fill_between(range(len(starts)), *bounds, alpha=0.15, color=line.get_color())
            axis.set_xticks(range(len(starts)), [labels.get(start, start) for start in starts], rotation=20)
            axis.grid(alpha=0.3)
    axes[0].set_ylabel("score, % of each task's best fixed start (IQM)")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150)
    plt.close(figure)
    write_aside(path, buffer.getvalue())


def rows_of(runs: Runs) -> list[Sequence[str]]:
    """Return the figure's numbers as rows of a table."""
    header = ("method", "start", "iqm", "seeds_low", "seeds_high", "tasks_low", "tasks_high")
    rows: list[Sequence[str]] = [header]
    for method, points in curves(runs).items():
        for start, each in points.items():
            numbers = (each.value, *each.seeds, *each.tasks)
            rows.append((method, start, *(f"{number:.4f}" for number in numbers)))
    return rows


def named(results: StudyResults) -> dict[str, str]:
    """Return the labels of methods and starts by their names."""
    labels: dict[str, str] = {}
    for method in results.study.methods:
        (name, start), (label, of_start) = method.name.rsplit(".", 1), method.label.rsplit(", ", 1)
        labels |= {name: label, start: of_start}
    return labels


def finished(runs: Runs) -> str:
    """Return how many seeds are complete, in a sentence."""
    whole, planned = len(runs.complete(FIXED)), len(runs.seeds)
    judged = " One seed judges no goal and has no interval over seeds." if whole == 1 else ""
    return f"{whole} of {planned} seeds {'is' if whole == 1 else 'are'} complete.{judged}"


@cache
def measured() -> tuple[StudyResults, Runs, dict[str, str]]:
    """Return the committed records, their runs and the labels, read once for all blocks."""
    results = load_results(FOLDER)
    return results, read(results), named(results)


def block() -> str:
    """Return the curve for the docs."""
    _, runs, labels = measured()
    return (
        f"{finished(runs)} Score in per cent of each task's best fixed start, IQM over tasks and seeds "
        f"([all measures](../{FOLDER.relative_to(ROOT)}/README.md)):\n\n{curve_table(runs, labels)}"
    )


def page() -> str:
    """Return all measures for the page beside the records."""
    results, runs, labels = measured()
    goals = "\n".join(f"| {' | '.join(row)} |" for row in answers(runs))
    parts = [
        f"{finished(runs)} Scores are in per cent of each task's best fixed start, IQM over tasks and seeds. Intervals "
        f"are over seeds, then over tasks and seeds. {declared(runs, untrained_scores(results), labels)}",
        curve_table(runs, labels),
        summary_table(runs, labels),
        *([f"| goal | measured | |\n| --- | --- | --- |\n{goals}"] if goals else []),
        "By task, the mean over starts and in brackets the worst start:",
        task_table(runs, labels),
    ]
    return "\n\n".join(parts)


BLOCKS = {"start-anywhere": block, "start-anywhere-page": page}


def main() -> None:
    """Write the figure and its numbers beside the records; `python -m experiments` writes the pages."""
    _, runs, labels = measured()
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows_of(runs))
    write_aside(FOLDER / "curve.csv", text.getvalue())
    draw(runs, labels, FOLDER / "curve.png")


if __name__ == "__main__":
    main()
