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
            ("rllib_cartpole", "ray.rllib", 2048),
        ]
    ),
]


@pytest.mark.parametrize(("example", "module", "steps"), FRAMEWORKS)
def test_example(example, module, steps, tmp_path):
    try:
        importlib.import_module(module)
    except ImportError:
        pytest.skip(f"needs the environment of {module}: make test-integrations")
    path = os.pathsep.join([str(EXAMPLES.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(EXAMPLES / example), "--steps", str(steps)]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "choices/" in run.stdout  # each example ends with the scheduler's numbers
