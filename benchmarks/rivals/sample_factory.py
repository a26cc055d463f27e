"""Sample Factory: its serial, synchronous runner, with EnvPool as one batched environment."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.misc import ExperimentStatus
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from sample_factory.utils.utils import log

from benchmarks.rivals.pool import Pool
from benchmarks.rivals.tasks import CLIP_RANGE, DISCOUNT, GAE_COEFFICIENT, MAX_GRADIENT_NORM, TASKS, Task

Array = np.ndarray[Any, np.dtype[Any]]

# Sample Factory needs Gymnasium below 1.0, where close() of a vectorised environment asks for this attribute. It is set
# by a constructor that EnvPool does not call.
gymnasium.vector.VectorEnv.closed = True


class Environments(gymnasium.Env[Array, Array]):
    """EnvPool's environments as Sample Factory's batched sampling asks for them."""

    is_multiagent = True

    def __init__(self, task: Task) -> None:
        self._pool = Pool(task)
        self.num_agents = task.environments
        self.action_space = self._pool.action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, self._pool.shape, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        return self._pool.reset(), {}

    def step(self, actions: Array) -> Any:
        step = self._pool.step(actions)
        return step.observations, step.rewards.astype(np.float32), step.terminated, step.truncated, {}


def environments(name: str, config: Any, env_config: Any, render_mode: str | None = None) -> Environments:
    """Make the environments of a task, by its name."""
    return Environments(TASKS[name])


def options(task: Task, folder: str) -> dict[str, Any]:
    """Return the options of its command line.

    A minibatch consists of whole rollouts, of which an update may take several: they are not longer than a minibatch.
    """
    return {
        "env": task.name, "train_dir": folder, "device": "cpu", "seed": 1, "use_rnn": False,
        "serial_mode": True, "async_rl": False, "batched_sampling": True, "set_workers_cpu_affinity": False,
        "num_workers": 1, "num_envs_per_worker": 1, "worker_num_splits": 1,
        "rollout": min(task.rollout_length, task.minibatch_size),
        "batch_size": task.minibatch_size, "num_batches_per_epoch": task.minibatches, "num_epochs": task.epochs,
        "shuffle_minibatches": True, "learning_rate": task.learning_rate, "adam_eps": 1e-5, "gamma": DISCOUNT,
        "gae_lambda": GAE_COEFFICIENT, "ppo_clip_ratio": CLIP_RANGE, "ppo_clip_value": CLIP_RANGE,
        "value_loss_coeff": 0.25, "exploration_loss_coeff": task.entropy_coefficient,
        "max_grad_norm": MAX_GRADIENT_NORM, "value_bootstrap": True, "normalize_input": task.normalize,
        "normalize_returns": task.normalize, "encoder_mlp_layers": "64 64", "nonlinearity": "tanh",
        "actor_critic_share_weights": False, "adaptive_stddev": False,
    }  # fmt: skip


class Count(AlgoObserver):
    """Count updates."""

    updates = 0

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        self.updates += 1


def make(task: Task) -> Callable[[], int]:
    """Return what runs one iteration and tells its steps."""
    log.setLevel("ERROR")  # else it warns of CartPole's value loss, which it calls high, at every gradient step
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    register_env(task.name, environments)
    words = [word for name, value in options(task, folder).items() for word in f"--{name} {value}".split()]
    parser, _ = parse_sf_args(words)
    _, runner = make_runner(parse_full_cfg(parser, words))
    count = Count()
    runner.register_observer(count)
    if runner.init() != ExperimentStatus.SUCCESS:
        raise RuntimeError("Sample Factory refuses its options; the reason stands above")
    runner.event_loop.start.emit()

    def iterate() -> int:
        before = count.updates
        while count.updates == before:
            runner.event_loop.process_events()
        return (count.updates - before) * task.batch_size

    return iterate
