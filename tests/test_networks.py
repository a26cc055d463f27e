from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, Normal, kl_divergence

from adept.envs.base import Continuous, Discrete
from adept.networks import ActionDistribution, Categorical, DiagonalGaussian, make_network


def parameters(name: str, shape: tuple[int, ...], actions: int = 15) -> int:
    return sum(p.numel() for p in make_network(name, shape, Discrete(actions), 0).parameters())


def test_sizes_counted_by_hand() -> None:
    # IMPALA on 3×64×64: per block conv(in→c)+4 conv(c→c), then 2048→256 and heads 256→15 and 256→1.
    impala = sum((i * 9 + 1) * c + 4 * (c * 9 + 1) * c for i, c in ((3, 16), (16, 32), (32, 32)))
    assert parameters("impala", (3, 64, 64)) == impala + 2049 * 256 + 257 * 16
    # A convolution 4/2 to 16, one to 32, and two in each residual part: 64 → 32 → 16 → 8 places a side.
    small = (3 * 16 + 1) * 16 + 2 * (16 * 9 + 1) * 16 + (16 * 9 + 1) * 32 + 2 * (32 * 9 + 1) * 32
    assert parameters("impala-small", (3, 64, 64)) == small + 2049 * 256 + 257 * 16
    # Nature's on 4×84×84: 84 → 20 → 9 → 7 places a side, then 3136→512 and heads 512→6 and 512→1.
    nature = (4 * 64 + 1) * 32 + (32 * 16 + 1) * 64 + (64 * 9 + 1) * 64 + 3137 * 512 + 513 * 7
    assert parameters("nature", (4, 84, 84), 6) == nature
    # MiniGrid: conv 2×2 3→16→32→64, two heads of 64→64→(7 | 1).
    minigrid = (3 * 4 + 1) * 16 + (16 * 4 + 1) * 32 + (32 * 4 + 1) * 64 + 2 * 65 * 64 + 65 * 7 + 65
    assert parameters("minigrid", (3, 7, 7), 7) == minigrid
    # Two towers 28→64→64, heads of 8 means and 1 value, 8 log deviations.
    network = make_network("mlp", (28,), Continuous((-1.0,) * 8, (1.0,) * 8), 0)
    assert sum(p.numel() for p in network.parameters()) == 2 * (29 * 64 + 65 * 64) + 65 * 8 + 65 + 8


@pytest.mark.parametrize(
    ("name", "shape"), [("impala", (3, 64, 64)), ("impala-small", (3, 64, 64)), ("minigrid", (3, 7, 7)), ("mlp", (11,))]
)
def test_seed_decides_the_weights_and_nothing_global_is_touched(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (make_network(name, shape, Discrete(4), seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    weights = [torch.cat([p.detach().flatten() for p in network.parameters()]) for network in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(("name", "shape"), [("nature", (4, 84, 84)), ("minigrid", (3, 7, 7)), ("mlp", (11,))])
def test_weights_are_orthogonal_with_the_gains_of_the_reference(name: str, shape: tuple[int, ...]) -> None:
    network = make_network(name, shape, Discrete(4), 0)
    for module in network.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d):
            gain = {network.heads.actor[-1]: 0.01, network.heads.critic[-1]: 1.0}.get(module, 2**0.5)
            rows = module.weight.detach().flatten(1)
            rows = rows if rows.shape[0] <= rows.shape[1] else rows.T
            torch.testing.assert_close(rows @ rows.T, gain**2 * torch.eye(len(rows)), atol=1e-5, rtol=0)
            assert not module.bias.detach().any()


def test_values_and_policy_alone_equal_the_whole() -> None:
    for name, shape in (("impala", (3, 64, 64)), ("nature", (4, 84, 84)), ("minigrid", (3, 7, 7)), ("mlp", (11,))):
        network = make_network(name, shape, Continuous((-1.0, -1.0), (1.0, 1.0)), 0)
        rows = torch.from_numpy(np.random.default_rng(0).integers(0, 10, (5, *shape)).astype(np.float32))
        policy, values = network(rows)
        assert policy.shape == (5, 4)
        assert values.shape == (5,)
        torch.testing.assert_close(network.values(rows), values)
        torch.testing.assert_close(network.policy(rows), policy)
        assert policy[:, 2:].eq(0).all()  # log deviations start at 0


def test_misfits_are_refused() -> None:
    with pytest.raises(ValueError, match="takes images"):
        make_network("impala", (11,), Discrete(2), 0)
    with pytest.raises(ValueError, match="36 × 36"):
        make_network("nature", (3, 35, 84), Discrete(2), 0)
    with pytest.raises(ValueError, match="7 × 7"):
        make_network("minigrid", (3, 5, 5), Discrete(2), 0)


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
