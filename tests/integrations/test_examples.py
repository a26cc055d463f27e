"""The examples run as they are."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FRAMEWORKS = [
    pytest.param("sb3_cartpole.py", "stable_baselines3", 2048, id="sb3"),
    *(
        pytest.param(f"{name}.py", module, steps, id=module, marks=pytest.mark.integration)
        for name, module, steps in [
            ("tianshou_cartpole", "tianshou", 4096),
            ("skrl_cartpole", "skrl", 4096),
            ("torchrl_cartpole", "torchrl", 4096),
            ("trl_tiny", "trl", 8),
            ("rsl_rl_pendulum", "rsl_rl", 8192),
            ("rllib_cartpole", "ray.rllib", 2048),
        ]
    ),
]


def run_example(example, folder, *options):
    path = os.pathsep.join([str(EXAMPLES.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(EXAMPLES / example), *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(("example", "module", "steps"), FRAMEWORKS)
def test_example(example, module, steps, tmp_path, request):
    try:
        importlib.import_module(module)
    except ImportError:
        pytest.skip(f"needs the environment of {module}: make test-integrations")
    if module.startswith("ray"):
        request.getfixturevalue("the_only_ray")
    run = run_example(example, tmp_path, "--steps", str(steps))
    assert run.returncode == 0, run.stderr[-3000:]
    assert "adept: " in run.stdout  # each example ends with advice


def assert_searched(example, folder, *options, searched, left_out):
    """Check that a search ends with what it found, and with the learning rate that was not searched."""
    run = run_example(example, folder, *options)
    assert run.returncode == 0, run.stderr[-3000:]
    found = run.stdout.partition("best return")[2]
    assert searched in found
    assert "its learning rate ended at" in found
    for name in left_out:
        assert name not in found


def test_the_search_with_optuna_leaves_epochs_and_learning_rate_out(tmp_path):
    pytest.importorskip("optuna", reason="needs the extra optuna")
    pytest.importorskip("stable_baselines3", reason="needs the extra sb3")
    options = ("--trials", "2", "--steps", "1024", "--storage", "sqlite:///search.db")
    assert_searched("optuna_sb3.py", tmp_path, *options, searched="gae_lambda", left_out=("n_epochs", "learning_rate"))
    assert (tmp_path / "search.db").exists(), "the same command goes on from there"


@pytest.mark.integration
@pytest.mark.ray
@pytest.mark.usefixtures("the_only_ray")
def test_the_search_with_ray_tune_leaves_epochs_and_learning_rate_out(tmp_path):
    pytest.importorskip(
        "ray.rllib", reason="needs the environment of rllib: make test-integrations", exc_type=ImportError
    )
    options = ("--trials", "1", "--steps", "1024")
    assert_searched("tune_rllib.py", tmp_path, *options, searched="entropy_coeff", left_out=("num_epochs", "'lr'"))
