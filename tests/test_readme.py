"""The code of README and of the pages on schedulers and the trainer runs, README's commands from a fresh clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adept
from tests.test_docs import PAGES, ROOT
from tests.test_docs import blocks as blocks_of

blocks = partial(blocks_of, language="python")


def run(page: str, **given: Any) -> dict[str, Any]:
    """Run the blocks of a page in order, in one namespace, and return it."""
    namespace = dict(given)
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"{page}, block {number}", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_lines_for_stable_baselines3_print_advice(page, capsys):
    pytest.importorskip("stable_baselines3")
    first = re.sub(r"learn\(\d+_\d+,", "learn(4_096,", blocks(page)[0])  # two rollouts
    assert "learn(4_096," in first
    namespace = {}
    exec(compile(first, page, "exec"), namespace)
    assert namespace["model"].num_timesteps == 4096
    assert "Only 1 update" in capsys.readouterr().out


@pytest.fixture
def world() -> dict[str, Any]:
    """What the loops of the pages leave to the reader: a policy, rollouts, its probabilities, updates that move it."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    policy, generator = torch.nn.Linear(3, 2), np.random.default_rng(0)
    updates: list[tuple[int, float]] = []

    def collect(policy):
        observations = torch.from_numpy(generator.normal(size=(16, 8, 3)).astype("float32"))
        advantages = observations.sum(-1).numpy() + 0.1 * generator.normal(size=(16, 8))
        return SimpleNamespace(observations=observations, advantages=advantages)

    def log_prob(policy, rollout):
        return policy(rollout.observations).log_softmax(-1)[..., 0]

    def update(policy, rollout, epochs, learning_rate):
        updates.append((epochs, learning_rate))
        with torch.no_grad():
            policy.weight[0] += 10 * learning_rate  # raises the first logit with the sum: what the advantages ask for

    def update_epoch(policy, rollout, learning_rate):
        update(policy, rollout, 1, learning_rate)
        return 1.0 if len(updates) == 3 else 0.0  # the KL

    return {"policy": policy, "learning_rate": 1e-3, "collect": collect, "log_prob": log_prob, "update": update,
            "update_epoch": update_epoch, "updates": updates}  # fmt: skip


def test_readme_runs_in_a_loop_of_ones_own(world, capsys):
    _, loop = blocks("README.md")
    exec(compile(loop, "README.md", "exec"), world | {"iterations": 12})
    updates = world["updates"]
    assert updates[0] == (10, 1e-3)  # as the loop was tuned, until something was judged
    assert updates[-1][1] > 1e-3  # every update stopped short
    assert "Updates stop short (mean slope z +4" in capsys.readouterr().out
    (bandit,) = re.findall(r"`(adept\.UCB[^`]*)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert eval(bandit, {"adept": adept, "mean_return": 1.0}) == 3


def test_the_loop_of_the_quick_start_marks_epochs_and_obeys_the_guard(world, capsys):
    loop = next(block for block in blocks("docs/quickstart.md") if "update_epoch" in block)
    exec(compile(loop, "docs/quickstart.md", "exec"), world | {"iterations": 2})
    assert len(world["updates"]) == 3 + 10  # the third epoch passes the guard's KL
    assert "Only 1 update was" in capsys.readouterr().out


def test_the_page_on_the_trainer_runs(capsys):
    pytest.importorskip("torch")
    run("docs/training.md")
    steps = [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert steps == [1024, 2048, 3072, 4096]


def test_the_page_on_schedulers_runs_and_its_own_scheduler_keeps_the_contract():
    namespace = run("docs/schedulers.md")
    assert namespace["epochs"] in (3, 2, 1)
    scheduler = namespace["EpsilonGreedy"]([3, 2, 1], epsilon=0.5, seed=1)
    twin = namespace["EpsilonGreedy"]([3, 2, 1], epsilon=0.5)
    choices = [scheduler.step(float(index % 5)) for index in range(100)]
    assert set(choices) == {3, 2, 1}
    twin.load_state_dict(scheduler.state_dict())
    assert [twin.step(1.0) for _ in range(100)] == [scheduler.step(1.0) for _ in range(100)]


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md"])
def test_links_to_files_lead_somewhere(page):
    path = ROOT / page
    for link in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def test_the_page_names_every_scheduler_and_every_knob():
    text = (ROOT / "docs/schedulers.md").read_text(encoding="utf-8")
    for name, cls in adept.SCHEDULERS.items():
        assert f"### `{name}`" in text
        for option in adept.schedulers.scheduler_options(cls):
            assert f"| `{option}` " in text


SHORTER = {
    r"^git clone .*": "true",  # the test has cloned already
    r"^(adept study (?!status|pack).*)$": r"\1 --dry-run",
    r"--steps [\d_]+": "--steps 4096",
    r"^make (?!demo)": "make --dry-run ",  # `make test` runs this test; CI runs the other targets by themselves
    r"^python -m (paper|experiments)$": r"python -m \1 --check",
    r"dist/\*\.whl": ".",  # `make package` installs the wheel
}
"""What the test of the README's commands runs in place of what takes minutes or hours; `make demo` trains for less."""
INSTALLS = re.compile(r"(python3? -m )?(pip|venv)\b|git clone")


def commands(text: str) -> list[str]:
    """Return the lines of the README's command blocks, and what it says to make or install in a line of text."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    shell = "".join(block for language, block in found if language in ("", "sh", "bash", "console"))
    lines = re.sub(r"\s*\\\n\s*", " ", shell).splitlines()
    lines += re.findall(r"`((?:make|pip install) [^`]+)`", text)
    return list(dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#")))


def shortened(command: str) -> str:
    """Return a command as the test runs it."""
    command = re.sub(r"\s+#.*$", "", command)
    for pattern, replacement in SHORTER.items():
        command = re.sub(pattern, replacement, command)
    return command


def test_commands_are_found_and_shortened():
    shell = "```\nadept study a --out b   # long\nadept report \\\n  b\n```\n"
    text = f"{shell}\n`make test` and\n\n```python\nx\n```\n\n`pip install '.[train]'`\n\n{shell}"
    found = [shortened(command) for command in commands(text)]
    assert found == [
        "adept study a --out b --dry-run",
        "adept report b",
        "make --dry-run test",
        "pip install '.[train]'",
    ]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Clone the repository beside a new environment; in the clone the demo's runs are short."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "clone")], check=True)
    demo = folder / "clone" / "src" / "adept" / "studies" / "data" / "demo.toml"
    text = re.sub(r"^seeds = .*$", "seeds = 1", demo.read_text(encoding="utf-8"), flags=re.MULTILINE)
    demo.write_text(re.sub(r"^steps = .*$", "steps = 4_096", text, flags=re.MULTILINE), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    yield folder / "clone"
    shutil.rmtree(folder)  # two copies of PyTorch


@pytest.mark.slow
def test_every_command_of_readme_runs_in_a_fresh_clone(clone: Path):
    """Those that install come first, as a reader does it. Versions are pinned; PyTorch's CPU build is there already."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS")}
    path = f"{clone.parent / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**own, "PATH": path, "PIP_CONSTRAINT": str(clone / "constraints.txt")}

    def run_there(command: str) -> None:
        done = subprocess.run(
            ["bash", "-c", command], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"

    run_there("pip install --quiet torch==2.13.0")
    found = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert any(INSTALLS.match(command) for command in found)
    for command in sorted(found, key=lambda line: not INSTALLS.match(line)):  # a stable order
        run_there(shortened(command))


def test_readme_is_one_screen_and_its_commands_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"`make (\w+)`", text):
        assert f"\n{command}:" in makefile
