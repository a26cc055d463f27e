"""Run the tests of numbers as on other processors: `python -m tests.processors`, or `make test-processors`.

PyTorch, its libraries, NumPy and the C library choose code by the processor, and each choice rounds in its own way.
They can be told to choose as on an older one. Each setting is a process of its own, since all of them choose at import.
"""

from __future__ import annotations

import os
import subprocess
import sys

NUMBERS = (
    "tests/fast", "tests/algorithms", "tests/hindsight", "tests/rules", "tests/schedulers",
    "tests/test_networks.py", "tests/test_engine.py", "tests/test_rollout.py", "tests/test_training.py",
    "tests/test_trainer_engine.py",
    "tests/envs/test_bullet.py", "tests/integrations/test_contract.py", "tests/integrations/test_sb3.py",
    "tests/report/test_statistics.py",
)  # fmt: skip
"""The tests whose results come from floating-point arithmetic."""

SETTINGS: dict[str, dict[str, str]] = {
    "without vector instructions beyond SSE4": {
        "ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
        "NUMPY_WITHOUT": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512_SKX", "OMP_NUM_THREADS": "1",
    },
    "AVX2 and two threads": {
        "ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F",
        "NUMPY_WITHOUT": "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512_SKX", "OMP_NUM_THREADS": "2",
    },
}  # fmt: skip
"""Environment variables by what they imitate; NUMPY_WITHOUT are features that NumPy leaves unused where it has them."""


def environment(setting: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with a setting; NumPy refuses to be told of features it was built without."""
    from numpy._core._multiarray_umath import __cpu_dispatch__ as known

    rest = dict(setting)
    without = [name for name in rest.pop("NUMPY_WITHOUT").split() if name in known]
    return os.environ | rest | {"NPY_DISABLE_CPU_FEATURES": " ".join(without)}


def main(arguments: list[str]) -> int:
    """Run the tests once per setting, with pytest's own arguments; return 1 where any of them failed."""
    failed = 0
    for name, setting in SETTINGS.items():
        print(f"As on a processor: {name}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *NUMBERS, *arguments]
        failed |= subprocess.run(command, env=environment(setting)).returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
