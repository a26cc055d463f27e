import copy
import gc
import weakref

import pytest

pytest.importorskip("tianshou", reason="needs the environment of tianshou: make test-integrations")

import numpy as np
import torch
from hosts.tianshou import ENVS, ROLLOUT, Tianshou, make, train
from recording import Counting, Oracle, Scripted, assert_equal_bit_for_bit
from tianshou.algorithm import A2C, GAIL, TRPO, Reinforce
from tianshou.algorithm.modelbased.icm import ICMOnPolicyWrapper
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import MLP
from tianshou.utils.net.discrete import IntrinsicCuriosityModule

from adept.integrations.tianshou import attach

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("algorithm", [A2C, TRPO, Reinforce])
def test_other_algorithms_are_refused(algorithm):
    with pytest.raises(ValueError, match=rf"got {algorithm.__name__}, .*only PPO's are: build"):
        attach(make(algorithm))


class Discriminator(torch.nn.Module):
    """Takes an observation and an action, which is a number here."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(4, 1)

    def forward(self, pairs):
        return self.last(pairs.float())


class NumberedGAIL(GAIL):
    """GAIL for actions that are numbers, of which Tianshou's own needs vectors."""

    def disc(self, batch):
        actions = torch.as_tensor(batch.act).float().reshape(len(batch), 1)
        return self.disc_net(torch.cat([torch.as_tensor(batch.obs), actions], dim=1))


def gail(**options):
    """Its discriminator makes 4 steps on minibatches of a quarter of the batch, as large as the policy's."""
    expert = VectorReplayBuffer(ROLLOUT, ENVS)
    collector = Collector(make(), DummyVectorEnv([Counting] * ENVS), expert)
    collector.reset()
    collector.collect(n_step=ROLLOUT)
    torch.manual_seed(2)
    disc = {"expert_buffer": expert, "disc_net": Discriminator(), "disc_optim": AdamOptimizerFactory(lr=0.01)}
    return make(NumberedGAIL, **disc, **options)


class Imitating(Tianshou):
    made = staticmethod(gail)


def test_gail_is_judged_by_the_epochs_of_its_policy(tmp_path):
    """The discriminator's pass over the batch before the first epoch is none of them."""
    plain = Imitating(tmp_path / "plain", "ppo")
    plain.run(4)
    run = Imitating(tmp_path / "run", "ppo", None, gains_every=1)
    oracle = Oracle(run)
    run.run(4)
    oracle.assert_evaluations()
    assert_equal_bit_for_bit((run.everything(), plain.everything()))
    assert len(run.logged("adept/epochs_done")) == len(run.logged("disc_loss/mean")) == 4
    assert len(run.logged("adept/slope_z")) == 3


def test_the_guard_leaves_gails_discriminator_alone(tmp_path):
    run = Imitating(tmp_path, "ppo", Scripted([(3, 1.0)], kl_stop=1e-9))
    run.run(2)
    assert [len(rates) for rates in run.rates] == [run.minibatches] * 2


class Curious(Tianshou):
    """PPO inside a wrapper, which ADEPT is not attached to."""

    def run(self, updates):
        torch.manual_seed(2)
        np.random.seed(2)  # noqa: NPY002 - Tianshou shuffles with it
        model = IntrinsicCuriosityModule(
            feature_net=MLP(input_dim=3, output_dim=4, hidden_sizes=[4]), feature_dim=4, action_dim=2, hidden_sizes=[4]
        )
        train(
            ICMOnPolicyWrapper(
                wrapped_algorithm=self.algorithm,
                model=model,
                optim=AdamOptimizerFactory(lr=0.01),
                lr_scale=1.0,
                reward_scale=0.1,
                forward_loss_weight=0.2,
            ),
            updates,
        )


def test_ppo_inside_a_wrapper_trains_as_without(tmp_path):
    plain, run = Curious(tmp_path, "ppo"), Curious(tmp_path, "ppo", None, gains_every=1)
    plain.run(3)
    run.run(3)
    assert run.feedback[-1].slope.known
    assert_equal_bit_for_bit((run.everything(), plain.everything()))


def test_no_batch_outlives_its_update():
    algorithm, alive = attach(make(), verbose=0), []
    update = algorithm._update_with_batch

    def counted(batch, *args, **kwargs):
        alive.append(weakref.ref(batch.adv))
        return update(batch, *args, **kwargs)

    algorithm._update_with_batch = counted
    gc.disable()
    try:
        train(algorithm, 4)
        assert sum(each() is not None for each in alive) <= 1 < len(alive)
    finally:
        gc.enable()


def test_an_attached_algorithm_can_be_copied():
    algorithm = attach(make(), "hindsight", verbose=0)
    assert copy.deepcopy(algorithm).adept.engine.rule.epochs == algorithm.adept.engine.rule.epochs


def test_a_policy_is_judged_as_it_acts():
    """A rate of 0 makes updates that change nothing, whatever dropout does in training."""
    algorithm = make()
    algorithm.policy.actor.preprocess.model.model.append(torch.nn.Dropout(0.5))
    algorithm.optim._optim.param_groups[0]["lr"] = 0.0
    attach(algorithm, verbose=0, gains_every=1)
    train(algorithm, 3)
    assert algorithm.adept.engine.feedback is None, "it did not move"
