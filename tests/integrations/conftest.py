import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # what the tests share is in recording.py

from recording import Recorder


@pytest.fixture
def recorder():
    return Recorder([3, 1, 2])
