"""rejax: PPO and environments in JAX, compiled together; gymnax's CartPole and navix's DoorKey."""

from __future__ import annotations

from collections.abc import Callable

import jax
from rejax import PPO

from benchmarks.rivals.tasks import CLIP_RANGE, DISCOUNT, GAE_COEFFICIENT, MAX_GRADIENT_NORM, Task

ITERATIONS = 8
"""Iterations of one call: nothing but the call returns to Python."""


def make(task: Task) -> Callable[[], int]:
    """Return what runs some iterations and tells their steps."""
    ppo = PPO.create(
        env=task.twin, num_envs=task.environments, num_steps=task.rollout_length, num_minibatches=task.minibatches,
        num_epochs=task.epochs, learning_rate=task.learning_rate, gamma=DISCOUNT, gae_lambda=GAE_COEFFICIENT,
        clip_eps=CLIP_RANGE, ent_coef=task.entropy_coefficient, max_grad_norm=MAX_GRADIENT_NORM,
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": (64, 64)},
    )  # fmt: skip

    @jax.jit
    def iterations(state):  # type: ignore[no-untyped-def]
        return jax.lax.fori_loop(0, ITERATIONS, lambda _, each: ppo.train_iteration(each), state)

    state = ppo.init_state(jax.random.PRNGKey(1))

    def iterate() -> int:
        nonlocal state
        state = jax.block_until_ready(iterations(state))
        return ITERATIONS * task.batch_size

    return iterate
