"""An evaluation moves parameters and leaves no trace."""

from __future__ import annotations

import copy
import math
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import adept
from adept.hindsight.estimates import gain, kl, slope, time_groups
from adept.hindsight.evaluation import CriticRows, Evaluator, Rows
from adept.hindsight.weights import PIECE, ModuleWeights

STEPS, ENVIRONMENTS = 16, 8


class Policy(nn.Module):
    """A small network with all that could be disturbed: dropout, batch norm, a frozen part and tied weights."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.first, self.norm = nn.Linear(3, 6), nn.BatchNorm1d(6)
        self.drop, self.second, self.tied = nn.Dropout(0.3), nn.Linear(6, 6), nn.Linear(6, 6)
        self.tied.weight = self.second.weight
        self.frozen = nn.Linear(6, 4).requires_grad_(False)
        self.register_buffer("calls", torch.zeros(()))
        self.to(dtype)

    def forward(self, rows):
        self.calls = self.calls + 1
        hidden = self.drop(self.norm(self.first(rows)).tanh())
        return torch.log_softmax(self.frozen(self.tied(self.second(hidden).tanh())).float(), -1)


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def policy(request):
    torch.manual_seed(0)
    return Policy(request.param)


def rollout(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(STEPS * ENVIRONMENTS, 3, generator=generator).to(dtype)
    actions = torch.randint(4, (len(rows),), generator=generator)
    return rows, actions, torch.randn(STEPS, ENVIRONMENTS, generator=generator)


def log_probs(policy, rows, actions):
    return policy(rows).gather(1, actions[:, None])[:, 0]


def move(policy, seed, size=0.02):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter += size * torch.randn(parameter.shape, generator=generator).to(parameter.dtype)


def snapshot(policy):
    """Everything that an evaluation could disturb."""
    return copy.deepcopy(
        {
            "state": {name: value.clone() for name, value in policy.state_dict().items()},
            "modes": [part.training for part in policy.modules()],
            "gradients": [parameter.grad for parameter in policy.parameters()],
            "rng": torch.get_rng_state(),
            "grad": torch.is_grad_enabled(),
        }
    )


def same(first, second):
    assert first["modes"] == second["modes"]
    assert first["grad"] == second["grad"]
    assert torch.equal(first["rng"], second["rng"])
    assert all(torch.equal(first["state"][name], second["state"][name]) for name in first["state"])
    for one, other in zip(first["gradients"], second["gradients"], strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def updated(policy, **options):
    """An evaluator after an update of two epochs, the first of which is marked."""
    evaluator = Evaluator(ModuleWeights(policy, **options))
    evaluator.begin()
    move(policy, 2)
    evaluator.mark(1)
    move(policy, 3)
    return evaluator


@pytest.mark.parametrize("host_copy", [False, True])
def test_everything_is_restored_bit_for_bit(policy, host_copy):
    rows, actions, advantages = rollout(policy.first.weight.dtype)
    policy(rows).sum().backward()
    evaluator = updated(policy, host_copy=host_copy)
    before, objects = snapshot(policy), [id(each) for each in (*policy.parameters(), *policy.buffers())]

    def careless():
        policy.drop.eval()
        torch.rand(3)
        return log_probs(policy, rows, actions)

    evaluation = evaluator.evaluate(Rows(careless, advantages, time_groups(STEPS, ENVIRONMENTS)))
    same(before, snapshot(policy))
    assert objects == [id(each) for each in (*policy.parameters(), *policy.buffers())]
    assert evaluation.slope.known
    assert evaluation.gain_by_epoch[1].known
    half = policy.first.weight.dtype == torch.bfloat16
    assert set(evaluation.gain_by_length) == ({2.0} if half else {0.5, 1.5, 2.0})
    assert evaluation.kl > 0


@pytest.mark.parametrize("fails_at", range(8))
def test_everything_is_restored_when_the_function_raises(fails_at):
    torch.manual_seed(0)
    policy = Policy()
    rows, actions, advantages = rollout()
    evaluator = updated(policy)
    before, calls = snapshot(policy), []

    def failing():
        policy.eval()
        calls.append(0)
        if len(calls) > fails_at:
            raise RuntimeError("out of memory")
        return log_probs(policy, rows, actions)

    with pytest.raises(RuntimeError, match="out of memory"):
        evaluator.evaluate(Rows(failing, advantages, time_groups(STEPS, ENVIRONMENTS)))
    same(before, snapshot(policy))


def test_the_numbers_are_those_of_the_estimates():
    torch.manual_seed(0)
    policy = Policy().eval()
    rows, actions, advantages = rollout()
    groups = time_groups(STEPS, ENVIRONMENTS)
    start, middle = copy.deepcopy(policy), copy.deepcopy(policy)
    move(middle, 2)
    evaluator = updated(policy)

    def at(length):
        other = copy.deepcopy(start)
        for first, last, own in zip(start.parameters(), policy.parameters(), other.parameters(), strict=True):
            own.data.copy_(first + length * (last - first))
        return log_probs(other, rows, actions).detach().double()

    seen = Rows(lambda: log_probs(policy, rows, actions), advantages, groups)
    evaluation = evaluator.evaluate(seen)
    now, first = at(1.0), at(0.0)
    assert evaluation.slope.z == pytest.approx(slope(at(1.25), at(0.75), advantages, groups).z, rel=1e-3)
    assert evaluation.update_gain.value == pytest.approx(gain(now, now, advantages, groups, over=first).value, rel=1e-4)
    for length, estimate in evaluation.gain_by_length.items():
        assert estimate.value == pytest.approx(gain(at(length), now, advantages, groups, over=first).value, rel=1e-3)
    halfway = log_probs(middle, rows, actions).detach().double()
    expected = gain(halfway, now, advantages, groups, over=first).value
    assert evaluation.gain_by_epoch[1].value == pytest.approx(expected, rel=1e-4)
    assert evaluation.kl == pytest.approx(kl(now, first), rel=0.5)  # to second order, from the slope's passes
    short = evaluator.evaluate(seen, gains=False)
    assert (short.kl, short.slope) == (evaluation.kl, evaluation.slope)
    assert not short.update_gain.known


def test_the_critic_is_evaluated_by_its_values_before_the_update():
    torch.manual_seed(0)
    critic = nn.Linear(3, 1)
    rows = torch.randn(STEPS * ENVIRONMENTS, 3)
    groups = time_groups(STEPS, ENVIRONMENTS)
    returns = critic(rows).detach().squeeze(1) + rows[:, 0]  # what is missing is along the first input
    evaluator = Evaluator(ModuleWeights(critic))
    evaluator.begin()
    critic.weight.data[0, 0] += 0.25
    deployed = critic(rows).detach().squeeze(1)
    seen = CriticRows(lambda: critic(rows).squeeze(1), deployed, returns - deployed)
    everywhere = Rows(lambda: torch.zeros(len(rows)), returns, groups, critic=seen)
    found = evaluator.evaluate(everywhere, gains=False).critic_slope
    assert found.value == pytest.approx(3.0, rel=1e-4)  # a quarter of the way: three times as much is missing
    assert torch.equal(critic(rows).squeeze(1), deployed)


def test_what_is_copied_stays_when_training_goes_on():
    policy = nn.Linear(2, 2)
    evaluator = Evaluator(ModuleWeights(policy))
    evaluator.begin()
    kept = [each.clone() for _, each in evaluator.start]
    nn.utils.vector_to_parameters(torch.ones(6), policy.parameters())
    move(policy, 1)
    assert all(torch.equal(one, other) for one, (_, other) in zip(kept, evaluator.start, strict=True))


def test_a_graph_made_before_can_still_be_differentiated():
    policy = nn.Linear(2, 2)
    loss = policy(policy(torch.ones(1, 2))).sum()
    with ModuleWeights(policy).at([(policy.weight, torch.zeros(2, 2)), (policy.bias, torch.zeros(2))]):
        assert policy(torch.ones(1, 2)).abs().sum() == 0
    loss.backward()


def test_nothing_to_evaluate_before_the_first_update_and_no_signal_without_finite_log_probs():
    evaluator = Evaluator(ModuleWeights(nn.Linear(2, 2)))
    rows = Rows(lambda: torch.full((4,), math.nan), torch.randn(4), np.arange(4))
    assert evaluator.evaluate(rows) is None
    evaluator.begin()
    evaluation = evaluator.evaluate(rows)
    assert evaluation.slope.z == 0
    assert all(math.isnan(value) for value in evaluation.columns().values())


class Bytes(TorchDispatchMode):
    """Count the bytes of tensors that were made since and are still there, and their largest sum."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._known = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for each in tree_leaves((args, kwargs)):
            if isinstance(each, torch.Tensor):
                self._known.add(each.untyped_storage())  # not made here
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor) and each.untyped_storage() not in self._known:
                storage = each.untyped_storage()
                self._known.add(storage)
                self._count(storage.nbytes())
                weakref.finalize(storage, self._count, -storage.nbytes())
        return made

    def _count(self, size):
        self.now += size
        self.peak = max(self.peak, self.now)


class Large(nn.Module):
    """Fifty million numbers in one tensor, beside a frozen one, and a policy that reads two of them."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(50_000, 1000, dtype=torch.float16))
        self.frozen = nn.Parameter(torch.zeros(1000, 1000), requires_grad=False)

    def forward(self):
        return torch.log_softmax(self.table[-1, -2:].float(), -1)


def test_memory_is_one_copy_between_updates_and_one_more_while_measuring():
    policy = Large()
    copy_size = 2 * 50_000 * 1000
    actions, advantages = torch.tensor([0, 1] * 8), torch.tensor([1.0, -1.0] * 8)
    with Bytes() as held:
        evaluator = Evaluator(ModuleWeights(policy))
        evaluator.begin()
        policy.table.data[-1, -2] += 0.5
        assert held.now == pytest.approx(copy_size, abs=1000)
        held.peak = held.now
        evaluation = evaluator.evaluate(Rows(lambda: policy()[actions], advantages, np.arange(16)))
        assert held.now == pytest.approx(copy_size, abs=1000)
        # One more copy, and a few pieces in float32, whatever the size of the tensor.
        assert 2 * copy_size <= held.peak <= 2 * copy_size + 5 * 4 * PIECE
        evaluator.mark(1)
        assert held.now == pytest.approx(2 * copy_size, abs=1000)
    # Twice the change lands where it should: π(0) at twice the step is a sigmoid of 1.
    before, twice = 0.5, 1 / (1 + math.exp(-1.0))
    deployed = 1 / (1 + math.exp(-0.5))
    expected = ((twice - before) / deployed + (twice - before) / (1 - deployed)) / 2
    assert evaluation.gain_by_length[2.0].value == pytest.approx(expected, rel=1e-3)
    assert policy.table[-1, -2].item() == 0.5


def assert_interpolated(policy, share, *, freeze=None):
    """Check that an update's step can be made as long as that, and that the present parameters come back."""
    weights = ModuleWeights(policy)
    start = weights.copy()
    first = [each.clone() for _, each in start]
    move(policy, 1)
    if freeze is not None:
        freeze.requires_grad_(False)
    now = [each.detach().clone() for each in policy.parameters()]
    with weights.at(start):
        assert all(torch.equal(one, other) for one, other in zip(policy.parameters(), first, strict=True))
    with weights.interpolate(start, share):
        for parameter, one, other in zip(policy.parameters(), first, now, strict=True):
            assert torch.allclose(parameter, one + share * (other - one))
    assert all(torch.equal(one, other) for one, other in zip(policy.parameters(), now, strict=True))


def test_parameters_that_are_frozen_after_an_update_are_evaluated_as_those_they_were():
    policy = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    assert_interpolated(policy, 2.0, freeze=policy[0].weight)
    assert len(ModuleWeights(policy).copy()) == 1, "frozen parameters are not copied"


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4)])
def test_parameters_that_are_not_contiguous(shape, monkeypatch):
    monkeypatch.setattr("adept.hindsight.weights.PIECE", 4)
    policy = nn.Module()
    policy.dense = nn.Parameter(torch.randn(shape).transpose(0, 1))
    policy.sliced = nn.Parameter(torch.randn(6, 8)[::2, ::2])
    assert_interpolated(policy, 1.5)


@pytest.mark.parametrize("optimiser", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.LBFGS])
def test_a_monitored_loop_trains_as_one_that_is_not(optimiser):
    """Dropout, batch norm and the optimiser's state go on as if nobody had looked, bit for bit."""

    def train(monitored):
        torch.manual_seed(0)
        policy = Policy()
        trained = [each for each in policy.parameters() if each.requires_grad]
        steps = optimiser(trained, lr=1e-2)
        hindsight = adept.Hindsight(policy, epochs=2, control=False, gains_every=2)
        rows, actions, advantages = rollout()

        def loss():
            steps.zero_grad()
            value = -(log_probs(policy, rows, actions) * advantages.ravel()).mean()
            value.backward()
            return value

        for _ in range(4):
            if monitored:
                hindsight.step(lambda: log_probs(policy, rows, actions), advantages)
            for epoch in (1, 2):
                steps.step(loss)
                if monitored:
                    hindsight.mark(epoch)
        assert hindsight.feedback is None or hindsight.feedback.slope.known == monitored
        return snapshot(policy), steps.state_dict()

    (plain, plain_steps), (monitored, monitored_steps) = train(False), train(True)
    same(plain, monitored)
    for one, other in zip(tree_leaves(plain_steps), tree_leaves(monitored_steps), strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_half_precision_is_evaluated_by_whole_steps():
    """Of a step of one digit of bfloat16, 0.75 and 1.25 are the same number; 0 and 2 are not."""
    policy = nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    policy.weight.data.fill_(1.0)
    weights = ModuleWeights(policy)
    assert weights.coarse
    assert not ModuleWeights(nn.Linear(1, 1)).coarse
    evaluator = Evaluator(weights)
    evaluator.begin()
    policy.weight.data.add_(2**-7)  # the next number after 1
    rows = torch.tensor([1.0, -1.0] * 16)
    evaluation = evaluator.evaluate(Rows(lambda: rows * policy.weight.float().item(), rows.numpy(), np.arange(32) // 2))
    # ln π moves by the row for each unit of the weight: the slope of one step is 2⁻⁷·mean[row·Â] = 2⁻⁷.
    assert evaluation.slope.value == pytest.approx(2**-7)
    assert list(evaluation.gain_by_length) == [2.0]
