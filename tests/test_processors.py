from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.processors import NUMBERS, SETTINGS, environment

ROOT = Path(__file__).parent.parent


def test_every_file_of_numbers_is_there() -> None:
    """pytest runs nothing at all where one of its files is missing."""
    assert [name for name in NUMBERS if not (ROOT / name).exists()] == []


def test_the_settings_imitate_two_processors_and_two_counts_of_threads() -> None:
    for name in ("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "OPENBLAS_CORETYPE", "OMP_NUM_THREADS"):
        assert len({setting[name] for setting in SETTINGS.values()}) == 2


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_libraries_obey(setting: dict[str, str]) -> None:
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("this processor has nothing beyond the least")
    code = "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())"
    done = subprocess.run([sys.executable, "-c", code], env=environment(setting), capture_output=True, text=True)
    capability = {"default": "DEFAULT", "avx2": "AVX2"}[setting["ATEN_CPU_CAPABILITY"]]
    assert done.stdout.split() == [capability, setting["OMP_NUM_THREADS"]]
