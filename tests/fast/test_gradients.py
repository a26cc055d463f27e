"""The gradients written out, against autograd."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from adept.algorithms.autograd import take_rows
from adept.algorithms.learner import Adam
from adept.algorithms.ppo import PPO
from adept.fast.gradients import METRICS, Surrogate, Targets
from adept.fast.passes import Passes
from adept.networks import ActorCritic
from adept.rules import Settings
from tests.fast.cases import CASES, make_case, make_config, make_rollout

ROWS = 96


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("clip_value_loss", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_equal_autograd(case: str, clip_value_loss: bool) -> None:
    reference, network, metrics = gradients(case, clip_value_loss)
    assert 0 < metrics[0][METRICS.index("clip_fraction")] < 1  # both sides of the clip are tried
    torch.testing.assert_close(*metrics)
    for (name, expected), parameter in zip(reference.named_parameters(), network.parameters(), strict=True):
        # Sums of at most some thousand products, each rounded to 1.1e-16 of itself.
        torch.testing.assert_close(parameter.grad, expected.grad, rtol=0, atol=1e-11, msg=lambda text, n=name: n + text)


@pytest.mark.parametrize("case", CASES)
def test_gradients_as_they_are_used_in_float32(case: str) -> None:
    """The same in the type of every run, by the length of the difference.

    Rounding may let another place win under max-pooling, which moves the gradient of one row of 96 at one of many
    places: less than 1e-3 of the length. Without that the difference is some 1e-6 of it.
    """
    reference, network, metrics = gradients(case, True)
    torch.testing.assert_close(*metrics, rtol=1e-4, atol=1e-5)
    for expected, parameter in zip(reference.parameters(), network.parameters(), strict=True):
        assert parameter.dtype == torch.float32
        assert (parameter.grad - expected.grad).norm() < 1e-3 * expected.grad.norm()


def gradients(case: str, clip_value_loss: bool) -> tuple[ActorCritic, ActorCritic, tuple[Tensor, Tensor]]:
    """Return a network with autograd's gradients, its copy with the written-out ones, and the metrics of both."""
    config = make_config(
        environments=1, rollout_length=ROWS, minibatch_size=ROWS, clip_value_loss=clip_value_loss,
        value_coefficient=0.7,
    )  # fmt: skip
    plan = Settings(epochs=1, learning_rate=1e-3, clip_range=0.15, entropy_coefficient=0.03)
    reference = make_case(case)
    network = copy.deepcopy(reference)
    minibatch = take_rows(make_rollout(case, network, ROWS), torch.arange(ROWS))
    loss, metrics = PPO(config, CASES[case][1], torch.device("cpu"))(reference, minibatch, plan)
    loss.backward()

    Adam(network)
    passes, surrogate = Passes(network), Surrogate(config, network, ROWS)
    with torch.inference_mode():
        outputs, values = passes.forward(passes.prepare(minibatch.observations))
        columns = minibatch.actions, minibatch.log_probs, minibatch.values, minibatch.returns, -minibatch.advantages
        targets = Targets(*(column.numpy() for column in columns))
        passes.backward(*surrogate.gradient(outputs, values, targets, plan))

    return reference, network, (torch.stack([metrics[name] for name in METRICS]), surrogate.metrics)


@pytest.mark.usefixtures("double")
def test_under_a_pooling_window_one_place_takes_the_gradient_even_among_equals() -> None:
    """A view of one and the same cell: all places tie, and the gradient must not be counted four times."""
    reference = make_case("minigrid-categorical")
    network = copy.deepcopy(reference)
    observations = torch.full((1, 3, 7, 7), 2, dtype=torch.uint8)
    outputs, value = reference(observations)
    (outputs.sum() + value.sum()).backward()
    Adam(network)
    passes = Passes(network)
    with torch.inference_mode():
        passes.forward(passes.prepare(observations))
        passes.backward(torch.ones(7, 1), torch.ones(1, 1))
    torch.testing.assert_close(network.encoder[0].weight.grad, reference.encoder[0].weight.grad, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("critic", [None, 0.03])
def test_adam_and_clipping_equal_torch(critic: float | None) -> None:
    reference = make_case("mlp-gaussian")
    network = copy.deepcopy(reference)
    own = set(reference.critic_parameters())
    rest = [parameter for parameter in reference.parameters() if parameter not in own]
    groups = [{"params": rest}, {"params": list(own), "lr": critic or 0.01}]
    optimizer = torch.optim.Adam(groups, lr=0.01, eps=1e-5)
    flat = Adam(network)
    generator = torch.Generator().manual_seed(3)
    for scale in (0.01, 1.0, 10.0, 0.1):
        for one, other in zip(reference.parameters(), network.parameters(), strict=True):
            gradient = scale * torch.randn(one.shape, generator=generator)
            one.grad = gradient.clone()
            assert other.grad is not None
            other.grad.copy_(gradient)
        expected = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
        assert float(flat.clip(0.5)) == pytest.approx(expected.item(), rel=1e-12)
        optimizer.step()
        flat.step(0.01, critic)
        for one, other in zip(reference.parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(other.detach(), one.detach(), rtol=1e-12, atol=1e-12)


def test_adam_is_torchs_bit_for_bit() -> None:
    flat = Adam(make_case("minigrid-categorical"))
    reference = torch.nn.Parameter(flat.values.clone())
    optimizer = torch.optim.Adam([reference], lr=1e-3, eps=1e-5, fused=True)
    generator = torch.Generator().manual_seed(3)
    for _ in range(20):
        flat.gradient.copy_(torch.randn(flat.gradient.shape, generator=generator))
        reference.grad = flat.gradient.clone()
        optimizer.step()
        flat.step(1e-3)
    assert torch.equal(flat.values, reference.detach())


def test_a_network_stays_itself_when_its_parameters_move_into_one_vector() -> None:
    network = make_case("minigrid-categorical")
    observations = torch.randint(0, 6, (5, 3, 7, 7), dtype=torch.uint8)
    before = [output.detach().clone() for output in network(observations)]
    flat = Adam(network)
    for output, expected in zip(network(observations), before, strict=True):
        torch.testing.assert_close(output.detach(), expected)
    flat.values.zero_()
    assert all(not parameter.any() for parameter in network.parameters())
