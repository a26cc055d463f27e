"""What all tests share."""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

if importlib.util.find_spec("gymnasium"):  # absent in the environments of some integrations
    from tests import tiny

    tiny.register()
