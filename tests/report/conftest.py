import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # what the tests share is in synthetic.py and browser.py

import pytest
from synthetic import METHODS, TASKS, write_study


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """A study's folder of five methods, two tasks and three seeds; one cell failed, one is missing, one half done."""
    directory = tmp_path_factory.mktemp("study") / "grid"
    states = {("thompson", TASKS[1], 3): "failed", ("round-robin", TASKS[0], 2): "missing",
              ("fixed-1", TASKS[1], 1): "interrupted"}  # fmt: skip
    write_study(directory, METHODS, TASKS, [1, 2, 3], states=states)
    return directory
