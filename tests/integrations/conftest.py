import pytest
from recording import Recorder


@pytest.fixture
def recorder():
    return Recorder([3, 1, 2])
