from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, Normal, kl_divergence

from adept.networks import ActionDistribution, Categorical, DiagonalGaussian


def oracle(kind: ActionDistribution, parameters: torch.Tensor) -> torch.distributions.Distribution:
    if isinstance(kind, Categorical):
        return TorchCategorical(logits=parameters)
    mean, log_std = parameters.chunk(2, -1)
    return Independent(Normal(mean, log_std.exp()), 1)


@pytest.mark.parametrize("kind", [Categorical(5), DiagonalGaussian(3)])
def test_equals_the_distributions_of_pytorch(kind: ActionDistribution) -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 64, kind.parameter_count, generator=generator)
    actions = kind.sample(first, torch.from_numpy(kind.noise(np.random.default_rng(0), 64)))
    assert actions.shape == (64, *kind.action_shape)
    assert actions.dtype == kind.action_dtype
    expected = oracle(kind, first)
    torch.testing.assert_close(kind.log_prob(first, actions), expected.log_prob(actions))
    torch.testing.assert_close(kind.entropy(first), expected.entropy())
    torch.testing.assert_close(kind.kl(first, second), kl_divergence(expected, oracle(kind, second)))


def test_categorical_samples_by_hand() -> None:
    # Probabilities 0.1, 0.2, 0.7: the noise 0.05 falls into the first, 0.1 and 0.29 into the second, 0.99 the third.
    kind = Categorical(3)
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.7]])).expand(4, 3)
    noise = torch.tensor([0.05, 0.1001, 0.29, 0.99])
    assert kind.sample(logits, noise).tolist() == [0, 1, 1, 2]
    assert kind.mode(logits).tolist() == [2] * 4


def test_samples_come_as_often_as_they_should() -> None:
    kind, count = Categorical(4), 200_000
    probabilities = torch.tensor([0.05, 0.15, 0.3, 0.5])
    noise = torch.from_numpy(kind.noise(np.random.default_rng(1), count))
    drawn = torch.bincount(kind.sample(probabilities.log().expand(count, 4), noise), minlength=4) / count
    torch.testing.assert_close(drawn, probabilities, atol=0.005, rtol=0)
    gaussian = DiagonalGaussian(1)
    noise = torch.from_numpy(gaussian.noise(np.random.default_rng(1), count))
    samples = gaussian.sample(torch.tensor([2.0, np.log(3.0)]).expand(count, 2), noise)
    assert float(samples.mean()) == pytest.approx(2.0, abs=0.03)
    assert float(samples.std()) == pytest.approx(3.0, abs=0.03)
    assert gaussian.mode(torch.tensor([[2.0, 0.0]])).tolist() == [[2.0]]
