from __future__ import annotations

import numpy as np
import pytest
import torch

from adept.fast import actors
from adept.fast.actors import FastActor
from adept.networks import TorchActor
from tests.fast.cases import CASES, make_case, make_observations

CPU = torch.device("cpu")


@pytest.mark.parametrize("rows", [1, 16, 80])
@pytest.mark.parametrize("case", CASES)
def test_actors_act_like_the_reference(case: str, rows: int) -> None:
    network = make_case(case)
    actor, rng = FastActor(network), np.random.default_rng(0)
    actor.refresh()
    for seed in range(20):
        observations, noise = make_observations(case, rows, seed), network.distribution.noise(rng, rows)
        expected, decision = TorchActor(network, CPU).act(observations, noise), actor.act(observations, noise)
        np.testing.assert_allclose(decision.actions, expected.actions, atol=1e-5)
        np.testing.assert_allclose(decision.log_probs, expected.log_probs, atol=1e-5)
        assert decision.actions.dtype == expected.actions.dtype
        assert decision.log_probs.dtype == np.float32
        if network.repeats:
            np.testing.assert_allclose(decision.values, expected.values, atol=1e-5)


def test_observations_that_repeat_are_computed_once_per_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 6 observations in rows of 16, some new in each of the first steps: the outputs stay those of their row."""
    network = make_case("minigrid-categorical")
    table, rng = make_observations("minigrid-categorical", 60, 0), np.random.default_rng(0)
    actor, passed, run = FastActor(network), [], actors.filled
    monkeypatch.setattr(actors, "filled", lambda new: passed.extend(new) or run(new))
    for rollout in (1, 2):
        actor.refresh()
        for step in range(40):
            rows = table[torch.from_numpy(rng.integers(0, min(3 + 4 * step, 60), 16))]
            noise = network.distribution.noise(rng, 16)
            decision, expected = actor.act(rows, noise), TorchActor(network, CPU).act(rows, noise)
            np.testing.assert_array_equal(decision.actions, expected.actions)
            np.testing.assert_allclose(decision.log_probs, expected.log_probs, atol=1e-5)
            np.testing.assert_allclose(decision.values, expected.values, atol=1e-5)
        assert len(passed) == 60 * rollout
        with torch.no_grad():  # the update between two rollouts
            network.heads.actor[-1].bias.add_(torch.arange(7.0))
            network.heads.critic[-1].bias.add_(1.0)


def test_an_actor_follows_the_parameters_when_refreshed() -> None:
    network = make_case("mlp-gaussian")
    actor, observations, noise = FastActor(network), make_observations("mlp-gaussian", 1, 0), np.zeros((1, 6), "f")
    actor.refresh()
    actor.act(observations, noise)
    with torch.no_grad():
        network.heads.actor[-1].bias.fill_(100.0)
        network.heads.log_std.fill_(1.0)
    actor.refresh()
    decision = actor.act(observations, noise)
    assert (decision.actions > 90).all()
    # The density of the mean of six deviations of e: 6 · (-1 - ½ ln 2π).
    np.testing.assert_allclose(decision.log_probs, [6 * (-1 - 0.5 * np.log(2 * np.pi))], rtol=1e-6)


def test_noise_of_nearly_one_takes_the_last_action() -> None:
    network = make_case("minigrid-categorical")
    actor = FastActor(network)
    actor.refresh()
    noise = np.array([np.nextafter(np.float32(1), np.float32(0))])
    assert actor.act(make_observations("minigrid-categorical", 1, 0), noise).actions.tolist() == [6]
