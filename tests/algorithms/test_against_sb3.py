"""The same rollout gives the same advantages, and the same update, as in Stable-Baselines3: an independent PPO."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")
pytest.importorskip("envpool", reason="needs the extra envpool")

from adept.config import Execution
from adept.presets import preset
from adept.trainer_engine import preset_settings
from adept.training import Trainer
from experiments.stable_baselines3.baseline import Pool, model

STEPS, ENVIRONMENTS = 256, 4
ORDER = np.random.default_rng(0).permutation(STEPS * ENVIRONMENTS)
"""Rows of the minibatches, time first as here; Stable-Baselines3's rows are environment first."""


class Same:
    """A generator whose permutations are all the same."""

    def permutation(self, count):
        return ORDER[:count]


def linear(*parts):
    return [layer for part in parts for layer in part.modules() if isinstance(layer, torch.nn.Linear)]


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "reference"])
@pytest.mark.parametrize("task", ["envpool/Pendulum-v1", "envpool/CartPole-v1"])
def test_a_rollout_and_an_update_are_those_of_stable_baselines3(task, fast, monkeypatch):
    config = replace(preset(task, scheduler="fixed"), rollout_length=STEPS, environments=ENVIRONMENTS,
                     minibatch_size=64, steps=100_000, monitor=False)  # fmt: skip
    ours = Trainer(config, Execution(fast=fast))
    ours.collector.restart(0)
    results, step = [], ours.environments.step
    monkeypatch.setattr(ours.environments, "step", lambda actions: results.append(step(actions)) or results[-1])
    rollout = ours.collector.collect()

    theirs = model(config, 3, Pool(config))
    theirs._setup_learn(1)
    policy, heads = theirs.policy, ours.network.heads
    own = linear(heads.actor, heads.critic)
    others = linear(
        policy.mlp_extractor.policy_net, policy.action_net, policy.mlp_extractor.value_net, policy.value_net
    )
    with torch.no_grad():
        for mine, other in zip(own, others, strict=True):
            other.weight.copy_(mine.weight)
            other.bias.copy_(mine.bias)

    buffer = theirs.rollout_buffer

    def put(name, values):
        column = getattr(buffer, name)
        column[:] = np.asarray(values).reshape(column.shape)

    def value(observations):
        with torch.no_grad():
            return policy.predict_values(torch.as_tensor(observations)).numpy().ravel()

    rewards = np.array([result.rewards for result in results])
    done = np.array([result.terminated | result.truncated for result in results])
    for number, result in enumerate(results):
        for row, environment in enumerate(np.flatnonzero(done[number])):
            if result.truncated[environment]:  # a time limit: the value of what came last is added to the reward
                final = value(result.final_observations[row : row + 1])[0]
                rewards[number, environment] += config.discount * final
    for name in ("observations", "actions", "log_probs", "values"):
        put(name, getattr(rollout, name))
    put("rewards", rewards)
    put("episode_starts", np.vstack([np.ones((1, ENVIRONMENTS), bool), done[:-1]]))
    buffer.pos, buffer.full = STEPS, True
    last = torch.as_tensor(value(results[-1].observations))
    buffer.compute_returns_and_advantage(last, done[-1])
    assert done.any()
    for name in ("advantages", "returns"):
        mine = getattr(rollout, name).numpy().reshape(STEPS, ENVIRONMENTS)
        np.testing.assert_allclose(mine, getattr(buffer, name), rtol=1e-4, atol=1e-4)

    put("advantages", rollout.advantages)
    put("returns", rollout.returns)
    their_order = ORDER % ENVIRONMENTS * STEPS + ORDER // ENVIRONMENTS
    monkeypatch.setattr("numpy.random.permutation", lambda count: their_order[:count])
    theirs.train()
    ours.learner._rng = Same()
    for _ in ours.learner.epochs(rollout, preset_settings(config, 3, config.learning_rate)):
        pass
    moved = 0.0
    for mine, other in zip(own, others, strict=True):
        torch.testing.assert_close(mine.weight.detach(), other.weight.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine.bias.detach(), other.bias.detach(), rtol=1e-4, atol=1e-5)
        moved += float(mine.bias.detach().abs().sum())  # they began at 0
    assert moved > 0.1
    if heads.log_std is not None:
        torch.testing.assert_close(heads.log_std.detach(), policy.log_std.detach(), rtol=1e-4, atol=1e-6)
    ours.environments.close()
