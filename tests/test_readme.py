"""The Python of the README and of the pages on schedulers and the trainer runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adept

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(page: str, **given: Any) -> dict[str, Any]:
    """Run the blocks of a page in order, in one namespace, and return it."""
    namespace = dict(given)
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"{page}, block {number}", "exec"), namespace)
    return namespace


def test_readme_runs_in_a_loop_of_ones_own():
    updates = []
    namespace = run(
        "README.md",
        policy=None,
        collect=lambda policy: SimpleNamespace(returns=np.array([1.0, 2.0])),
        update=lambda policy, rollout, epochs: updates.append(epochs),
    )
    assert len(updates) == 100
    assert set(updates) == {3, 2, 1}
    assert isinstance(namespace["scheduler"], adept.UCB)


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


def test_readme_is_one_screen_and_its_commands_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert f"\n{command}:" in makefile
