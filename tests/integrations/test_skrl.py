import gc
import weakref

import pytest

pytest.importorskip("skrl", reason="needs the environment of skrl: make test-integrations")

import numpy as np
import torch
from hosts.skrl import CONFIGURED, MINIBATCHES, SCALED, STEPS, Policy, Skrl, build
from recording import Recorder, Scripted, assert_equal_bit_for_bit
from skrl.agents.torch.a2c import A2C
from skrl.agents.torch.trpo import TRPO
from skrl.resources.schedulers.torch import KLAdaptiveLR

from adept.integrations.skrl import attach

pytestmark = pytest.mark.integration

ADAPTIVE = {
    "learning_rate": 1e-5,
    "learning_rate_scheduler": KLAdaptiveLR,
    "learning_rate_scheduler_kwargs": {"kl_threshold": 10.0, "lr_factor": 1.5},
}
"""The divergence is far below the threshold, so that each step of the scheduler multiplies the rate by 1.5."""


def steps_of(run):
    return [len(rates) for rates in run.rates]


def test_a_bandit_leaves_the_adaptive_learning_rate_one_step_per_update_and_a_rule_none(tmp_path):
    run = Skrl(tmp_path, "ppo", Recorder([3, 1, 2]), settings=ADAPTIVE)
    run.run(5)
    for number, rates in enumerate(run.rates):
        assert rates == pytest.approx([1e-5 * 1.5**number] * len(rates))
    choices = [(2, 1.0), (1, 0.5), (3, 0.25)]
    run = Skrl(tmp_path, "ppo", Scripted(choices), settings=ADAPTIVE)
    run.run(3)
    assert run.rates == [pytest.approx([1e-5 * scale] * epochs * MINIBATCHES) for epochs, scale in choices]
    assert run.optimizer.param_groups[0]["lr"] == 1e-5


def test_a_stop_by_divergence_shows_in_the_epochs_done(tmp_path):
    run = Skrl(tmp_path, "ppo", Recorder([3, 1, 2]), settings={"kl_threshold": 1e-12, "learning_rate": 0.1})
    run.run(3)
    assert run.logged("adept/epochs") == [3.0, 1.0, 2.0]
    assert run.logged("adept/epochs_done") == [steps / MINIBATCHES for steps in steps_of(run)]
    assert all(done < asked for done, asked in zip(run.logged("adept/epochs_done"), (3, 1, 2), strict=True))


@pytest.mark.parametrize("kind", [A2C, TRPO])
def test_other_agents_are_refused(kind, tmp_path):
    agent, _ = build(tmp_path, kind)
    with pytest.raises(ValueError, match=rf"got {kind.__name__}, .*PPO, PPO_RNN, RPO, RPO_RNN.*build one"):
        attach(agent)


def test_distributed_runs_are_refused(tmp_path, monkeypatch):
    agent, _ = build(tmp_path)
    monkeypatch.setattr("skrl.config.torch._is_distributed", True)
    with pytest.raises(ValueError, match=r"distributed.*single-process.*without torchrun"):
        attach(agent)


def test_the_guard_ends_an_update_and_not_only_an_epoch(tmp_path):
    """The limit is passed at the first minibatch of epoch 3 of 4: skrl ends that epoch, ADEPT the update."""
    scripted = Scripted([(4, 1.0)], kl_stop=100.0)
    run = Skrl(tmp_path, "ppo", scripted, gains_every=1, settings={"learning_rate": 0.1})
    agent = run.agent
    passes, act, sample = [], agent.policy.act, agent.memory.sample

    def sampled(*args, **kwargs):
        passes.append(0)
        if len(passes) == 3:
            assert agent.cfg.kl_threshold == 100.0
            agent.cfg.kl_threshold = 1e-9
        return sample(*args, **kwargs)

    def acted(inputs, role=""):
        if passes:
            passes[-1] += 1
        return act(inputs, role=role)

    agent.memory.sample, agent.policy.act = sampled, acted
    run.run(1)
    assert passes == [MINIBATCHES, MINIBATCHES, 1, 0]
    assert steps_of(run) == [2 * MINIBATCHES]
    assert sorted(run.engine._evaluator.marked) == [1, 2]
    assert run.logged("adept/epochs_done") == [2.0]
    assert np.isfinite([run.tracked[0][name] for name in ("Loss / Policy loss", "Loss / Value loss")]).all()
    assert agent.cfg.kl_threshold == 0
    assert len(agent.memory.sample(names=["actions"], batch_size=STEPS, mini_batches=MINIBATCHES)) == MINIBATCHES


def test_a_stop_of_the_agents_own_is_left_to_it(tmp_path):
    """Without a rule skrl goes on with the next epoch, as it does without ADEPT."""
    options = {"kl_threshold": 1e-4, "learning_rate": 0.1}
    plain = Skrl(tmp_path, "ppo", settings=options)
    plain.run(2)
    run = Skrl(tmp_path, "ppo", None, gains_every=1, settings=options)
    run.run(2)
    assert all(0 < steps < MINIBATCHES * CONFIGURED for steps in steps_of(run))
    assert_equal_bit_for_bit((run.everything(), plain.everything()))


def test_rpo_is_judged_without_its_perturbation(tmp_path):
    """A rate of 0 makes updates that are worth nothing, however much RPO perturbs what the policy says."""
    run = Skrl(tmp_path, "rpo", None, gains_every=1, settings={"learning_rate": 0.0, "alpha": 2.0})
    run.run(2)
    assert not {"adept/update_gain", "adept/update_kl"} & run.tracked[-1].keys(), "it did not move"
    plain = Skrl(tmp_path, "rpo", settings={"learning_rate": 0.02})
    plain.run(3)
    run = Skrl(tmp_path, "rpo", None, gains_every=1, settings={"learning_rate": 0.02})
    run.run(3)
    assert {"adept/slope_z", "adept/gain/2"} < run.tracked[-1].keys()
    assert_equal_bit_for_bit((run.everything(), plain.everything()))


def test_the_perturbation_of_rpo_does_not_end_an_update(tmp_path):
    """skrl's KL is that of the perturbation from the first minibatch on, before any step."""
    run = Skrl(tmp_path, "rpo", Scripted([(3, 1.0)], kl_stop=0.01), settings={"alpha": 2.0})
    run.run(2)
    assert steps_of(run) == [MINIBATCHES * 3] * 2


def test_a_preprocessor_that_learns_its_scale_does_not_end_the_first_update(tmp_path):
    """The scale changes what the policy says from the second minibatch on, by far more than this limit."""
    settings = {name: value for name, value in SCALED.items() if "observation" in name} | {"learning_rate": 1e-9}
    run = Skrl(tmp_path, "ppo", Scripted([(4, 1.0)], kl_stop=1e-3), settings=settings)
    with torch.no_grad():
        run.policy.net.weight.mul_(20)
    run.run(1)
    assert steps_of(run) == [MINIBATCHES * 4]


def test_no_minibatch_outlives_its_epoch(tmp_path):
    run = Skrl(tmp_path, "ppo", None)
    memory, alive = run.agent.memory, []
    sample = memory.sample

    def counted(*args, **kwargs):
        minibatches = sample(*args, **kwargs)
        alive.extend(weakref.ref(each) for minibatch in minibatches for each in minibatch if each is not None)
        return minibatches

    memory.sample = counted
    run.run(2)
    gc.collect()
    assert alive
    assert not sum(each() is not None for each in alive), "nothing waits for the next rollout"


class Dropped(Policy):
    """A policy with dropout."""

    def compute(self, inputs, role=""):
        return torch.nn.functional.dropout(self.net(inputs["observations"]), 0.5, self.training), {}


def test_a_policy_is_judged_as_it_acts(tmp_path):
    """A rate of 0 makes updates that change nothing, whatever dropout does in training."""
    run = Skrl(tmp_path, "ppo", None, gains_every=1, settings={"policy": Dropped, "learning_rate": 0.0})
    run.run(2)
    assert "adept/update_kl" not in run.tracked[-1]
