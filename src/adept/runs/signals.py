"""Handlers of signals, for as long as a block runs."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def handling(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals meanwhile; in a thread other than the main one, which is sent none, change nothing."""
    main = threading.current_thread() is threading.main_thread()
    old = {number: signal.signal(number, handler) for number in numbers} if main else {}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before)
