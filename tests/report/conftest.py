import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # what the tests share is in synthetic.py and browser.py

import pytest
from synthetic import METHODS, write_study


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """A study's folder of five methods, two tasks and three seeds; one cell failed, one is missing, one half done."""
    directory = tmp_path_factory.mktemp("study") / "grid"
    write_study(
        directory,
        METHODS,
        ["minigrid/DoorKey-6x6", "minigrid/LavaGapS7"],
        [1, 2, 3],
        states={
            ("thompson", "minigrid/LavaGapS7", 3): "failed",
            ("round-robin", "minigrid/DoorKey-6x6", 2): "missing",
            ("fixed-1", "minigrid/LavaGapS7", 1): "interrupted",
        },
    )
    return directory
