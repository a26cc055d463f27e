"""One row for each iteration of a Stable-Baselines3 run, from a callback."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def recorder(rows: list[list[float]], more: Callable[[Any], Sequence[float]]) -> Any:
    """Return a callback that adds a row for each iteration, the last one after the last update.

    A row is (step, gradient steps, mean episode return, wall seconds, processor seconds) and what `more` says of the
    model.
    """
    from stable_baselines3.common.callbacks import BaseCallback

    class Record(BaseCallback):
        gradient_steps = 0

        def _on_training_start(self) -> None:
            self.start = time.perf_counter(), time.process_time()
            self.model.policy.optimizer.register_step_post_hook(self.count)

        def count(self, *_: Any) -> None:
            self.gradient_steps += 1

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            episodes = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            mean = float(np.mean(episodes)) if episodes else float("nan")
            wall, cpu = time.perf_counter() - self.start[0], time.process_time() - self.start[1]
            rows.append([self.model.num_timesteps, self.gradient_steps, mean, wall, cpu, *more(self.model)])

        def _on_training_end(self) -> None:
            self._on_rollout_end()

    return Record()
