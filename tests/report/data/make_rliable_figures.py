"""Compute rliable.json, the figures that adept.report.statistics is tested against, with rliable itself.

    python -m venv scratch && scratch/bin/pip install 'rliable==1.2.0' 'pandas<3'
    scratch/bin/python tests/report/data/make_rliable_figures.py

rliable 1.2 does not work with pandas 3 and takes no seed for its intervals, so those are compared within the
Monte-Carlo error of their 2,000 resamples.
"""

import json
from importlib import metadata
from pathlib import Path

import numpy as np
from rliable import library, metrics

RESAMPLES = 2_000
THRESHOLDS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]


def scores(seed: int, runs: int, tasks: int) -> np.ndarray:
    """Return runs × tasks of scores that differ by task, rounded so that ties occur."""
    random = np.random.default_rng(seed)
    return np.round(random.gamma(4.0, 0.25, (runs, tasks)) * random.uniform(0.5, 1.5, tasks), 2)


def aggregates(table: np.ndarray) -> np.ndarray:
    return np.array(
        [
            metrics.aggregate_iqm(table),
            metrics.aggregate_mean(table),
            metrics.aggregate_median(table),
            metrics.aggregate_optimality_gap(table, 1.0),
        ]
    )


def figures(one: np.ndarray, other: np.ndarray) -> dict:
    np.random.seed(0)  # noqa: NPY002 - the only seed that rliable heeds, and not everywhere
    points, intervals = library.get_interval_estimates({"one": one}, aggregates, reps=RESAMPLES)
    pair = {"one,other": (one, other)}
    chance, chance_interval = library.get_interval_estimates(pair, metrics.probability_of_improvement, reps=RESAMPLES)
    thresholds = np.array(THRESHOLDS)
    profile, band = library.create_performance_profile({"one": one}, thresholds, reps=RESAMPLES)
    return {
        "scores": one.T.tolist(),
        "others": other.T.tolist(),
        "aggregates": dict(zip(("iqm", "mean", "median", "optimality_gap"), points["one"].tolist(), strict=True)),
        "intervals": intervals["one"].T.tolist(),
        "probability_of_improvement": float(chance["one,other"]),
        "probability_interval": chance_interval["one,other"].ravel().tolist(),
        "thresholds": THRESHOLDS,
        "profile": profile["one"].tolist(),
        "profile_band": band["one"].T.tolist(),
    }


def main() -> None:
    names = ("rliable", "arch", "numpy", "scipy", "pandas")
    result = {
        "made by": "tests/report/data/make_rliable_figures.py",
        "versions": {name: metadata.version(name) for name in names},
        "resamples": RESAMPLES,
        "cases": {
            "5 seeds × 16 tasks": figures(scores(1, 5, 16), scores(2, 5, 16)),
            "3 and 4 seeds × 4 tasks": figures(scores(3, 3, 4), scores(4, 4, 4)),
            "10 seeds × 3 tasks": figures(scores(5, 10, 3), scores(6, 10, 3)),
        },
    }
    path = Path(__file__).with_name("rliable.json")
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
