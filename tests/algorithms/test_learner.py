"""The learner, with gradients by autograd and by hand alike."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch

from adept.algorithms.learner import Epoch, Learner, mean_metrics
from adept.config import Config
from adept.networks import ActorCritic
from adept.rules import Settings
from tests.fast.cases import both, make_case, make_config, make_rollout

PLAN = Settings(epochs=3, learning_rate=1e-3, clip_range=0.2, entropy_coefficient=0.01)
Maker = Callable[[ActorCritic, Config], Learner]

cases = pytest.mark.parametrize("case", ["mlp-gaussian", "minigrid-categorical", "minigrid-gaussian"])


@both
def test_an_update_is_a_sequence_of_epochs_and_may_end_after_each(make: Maker) -> None:
    config, network = make_config(), make_case("mlp-categorical")
    rollout = make_rollout("mlp-categorical", network, config.batch_size)
    whole, broken = make(network, config), make(copy.deepcopy(network), config)
    first, second, third = whole.epochs(rollout, PLAN)
    assert [epoch.gradient_steps for epoch in (first, second, third)] == [4, 4, 4]  # 128 rows by 32
    for epoch in broken.epochs(rollout, PLAN):
        assert epoch.metrics == first.metrics
        break
    # Going on where another stopped makes the same epochs: nothing of an update is outside the learner.
    assert [epoch.metrics for epoch in broken.epochs(rollout, PLAN)][:2] == [second.metrics, third.metrics]


@both
@cases
def test_a_snapshot_takes_an_update_back(make: Maker, case: str) -> None:
    config, network = make_config(), make_case(case)
    learner = make(network, config)
    rollout = make_rollout(case, network, config.batch_size)
    fresh = learner.snapshot()
    list(learner.epochs(rollout, PLAN))
    used = learner.snapshot()
    values, arrays = copy.deepcopy(learner.state())
    list(learner.epochs(rollout, PLAN))
    assert not torch.equal(learner.parameters(), used.parameters)
    learner.restore(used)
    after = learner.state()[1]
    assert after.keys() == arrays.keys()
    assert all((after[name] == arrays[name]).all() for name in arrays)
    # What follows a restored snapshot equals what followed it the first time, given the same shuffles.
    expected = next(iter(learner.epochs(rollout, PLAN))).metrics
    learner.restore(fresh)
    learner.restore(used)
    learner.load(values, learner.state()[1])
    list(learner.epochs(rollout, PLAN))
    learner.restore(used)
    assert next(iter(learner.epochs(rollout, PLAN))).metrics == expected


@both
def test_a_snapshot_of_before_the_first_step_forgets_the_optimiser(make: Maker) -> None:
    config, network = make_config(), make_case("mlp-gaussian")
    learner, other = make(network, config), make(copy.deepcopy(network), config)
    rollout = make_rollout("mlp-gaussian", network, config.batch_size)
    fresh, (values, _) = learner.snapshot(), copy.deepcopy(learner.state())
    list(learner.epochs(rollout, PLAN))
    learner.restore(fresh)
    learner.load(values, learner.state()[1])
    assert [epoch.metrics for epoch in learner.epochs(rollout, PLAN)] == [
        e.metrics for e in other.epochs(rollout, PLAN)
    ]


@both
def test_the_arrays_of_a_checkpoint_keep_their_names(make: Maker) -> None:
    """By each parameter's own name and shape, whatever the vector is like: checkpoints outlive the code."""
    config, network = make_config(minibatch_size=64), make_case("mlp-gaussian")
    learner = make(network, config)
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    assert {name: array.shape for name, array in learner.state()[1].items()} == {
        f"network/{name}": shape for name, shape in shapes.items()
    }
    list(learner.epochs(make_rollout("mlp-gaussian", network, config.batch_size), PLAN))
    arrays = learner.state()[1]
    expected = {
        f"{key}/{name}": shape
        for key in ("network", "adam/exp_avg", "adam/exp_avg_sq")
        for name, shape in shapes.items()
    }
    assert {name: array.shape for name, array in arrays.items()} == expected | {
        f"adam/step/{name}": () for name in shapes
    }
    steps = arrays["adam/step/heads.log_std"]
    assert (float(steps), steps.dtype) == (6.0, "float32")  # three epochs of two minibatches


@both
@cases
def test_the_policy_at_other_parameters_and_back(make: Maker, case: str) -> None:
    config, network = make_config(), make_case(case)
    learner = make(network, config)
    rollout = make_rollout(case, network, config.batch_size)
    before, own = learner.log_probs(rollout), learner.parameters()
    distribution = network.distribution
    expected = distribution.log_prob(network.policy(rollout.observations), rollout.actions).detach()
    torch.testing.assert_close(before, expected)
    values = network.values(rollout.observations).detach()
    torch.testing.assert_close(learner.values(rollout), values)

    def look() -> None:
        with learner.at(torch.zeros_like(own)):
            assert not any(parameter.any() for parameter in network.parameters())
            assert not torch.equal(learner.log_probs(rollout), before)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        look()
    assert torch.equal(learner.parameters(), own)
    assert torch.equal(learner.log_probs(rollout), before)
    rows = torch.tensor([5, 0, 77])
    torch.testing.assert_close(learner.log_probs(rollout, rows), before[rows])
    torch.testing.assert_close(learner.values(rollout, rows), values[rows])
    other = make_rollout(case, network, config.batch_size, seed=1)  # of which nothing is known yet
    torch.testing.assert_close(learner.values(other), network.values(other.observations).detach())


@both
def test_rows_that_do_not_fill_a_minibatch_are_left_out(make: Maker) -> None:
    config, network = make_config(), make_case("mlp-categorical")
    rollout = make_rollout("mlp-categorical", network, 100)
    epochs = list(make(network, config).epochs(rollout, PLAN))
    assert [(epoch.gradient_steps, epoch.rows) for epoch in epochs] == [(3, 96)] * 3  # 100 rows by 32


@both
def test_a_rollout_smaller_than_a_minibatch_is_one(make: Maker) -> None:
    config, network = make_config(), make_case("mlp-gaussian")
    learner, other = make(network, config), make(copy.deepcopy(network), make_config(minibatch_size=16))
    rollout = make_rollout("mlp-gaussian", network, 16)
    small, same = list(learner.epochs(rollout, PLAN)), list(other.epochs(rollout, PLAN))
    assert [(epoch.gradient_steps, epoch.rows) for epoch in small] == [(1, 16)] * 3
    assert [epoch.metrics for epoch in small] == [epoch.metrics for epoch in same]
    whole = make_rollout("mlp-gaussian", network, config.batch_size)
    assert next(iter(learner.epochs(whole, PLAN))).rows == 128  # and a whole one afterwards


class Counting(torch.Tensor):
    """A tensor that counts how often its numbers are fetched."""

    fetched = 0

    def tolist(self) -> list[float]:
        Counting.fetched += 1
        return super().tolist()  # type: ignore[no-any-return]


def test_metrics_are_fetched_once_and_only_when_asked() -> None:
    epoch = Epoch(4, 128, ("approx_kl", "entropy"), torch.tensor([0.5, 1.0]).as_subclass(Counting))
    assert Counting.fetched == 0
    assert (epoch.metrics["entropy"], epoch.metrics["approx_kl"], Counting.fetched) == (1.0, 0.5, 1)


def test_metrics_of_an_update_are_means_over_its_epochs() -> None:
    names = ("approx_kl", "entropy")
    made = [Epoch(4, 128, names, torch.tensor([0.25, 1.0])), Epoch(4, 128, names, torch.tensor([0.75, 3.0]))]
    assert mean_metrics(made) == {"approx_kl": 0.5, "entropy": 2.0, "approx_kl_last_epoch": 0.75}
    with pytest.raises(ValueError, match="no longer a finite number"):
        mean_metrics([Epoch(4, 128, names, torch.tensor([float("nan"), 1.0]))])


def test_an_undone_epoch_counts_unless_its_numbers_are_not_finite() -> None:
    names = ("approx_kl", "entropy")
    made, last = Epoch(4, 128, names, torch.tensor([0.25, 1.0])), torch.tensor([0.75, 3.0])
    finite = mean_metrics([made, Epoch(4, 128, names, last)], undone=True)
    assert finite == {"approx_kl": 0.5, "entropy": 2.0, "approx_kl_last_epoch": 0.75}
    lost = Epoch(4, 128, names, torch.tensor([float("inf"), 3.0]))
    left = mean_metrics([made, lost], undone=True)
    assert left == {"approx_kl": 0.25, "entropy": 1.0, "approx_kl_last_epoch": 0.25}
    assert all(math.isnan(value) for value in mean_metrics([lost], undone=True).values())
    with pytest.raises(ValueError, match="no longer a finite number"):
        mean_metrics([made, lost])
