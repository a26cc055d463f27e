import pytest

pytest.importorskip("torchrl", reason="needs the environment of torchrl: make test-integrations")

import torch
from hosts.torchrl import CONFIGURED, MINIBATCHES, STEPS, TorchRL, build
from recording import Recorder, Scripted, assert_equal_bit_for_bit
from tensordict import TensorDict
from torchrl.objectives import A2CLoss
from torchrl.trainers.algorithms.a2c import A2CTrainer

from adept.integrations.torchrl import attach

pytestmark = pytest.mark.integration


def test_padding_is_left_out_of_the_mean():
    """A mask that calls the first half of each batch valid leaves the means of the halves."""
    trainer, recorder = build(3), Recorder([3, 1, 2])

    def halve(batch):
        mask = torch.arange(STEPS) < STEPS // 2
        return batch.set(("collector", "mask"), mask)

    trainer.register_op("batch_process", halve)
    trainer.total_frames = 3 * STEPS // 2
    attach(trainer, recorder).train()
    recorder.assert_credits([STEPS * batch + (STEPS // 2 + 1) / 2 for batch in range(3)])


def test_other_losses_are_refused():
    with pytest.raises(ValueError, match=r"got A2CTrainer with A2CLoss, .*PPOLoss is needed: build a PPOTrainer"):
        attach(build(1, kind=A2CTrainer, loss=A2CLoss))


def test_a_trainer_without_returns_is_refused():
    with pytest.raises(ValueError, match=r"no whole batch .*ValueEstimatorHook.*build PPOTrainer so"):
        attach(build(1, add_gae=False))


def test_a_trainer_without_an_optimizer_is_refused():
    trainer = build(1)
    trainer.optimizer = None
    with pytest.raises(ValueError, match=r"no optimizer .*Trainer\(optimizer=…\)"):
        attach(trainer)


@pytest.mark.parametrize(("variant", "steps"), [("batch", 1), ("optim", CONFIGURED * MINIBATCHES)])
def test_an_update_that_the_guard_ends_counts_as_a_whole_one_for_the_schedule(variant, steps, tmp_path):
    run = TorchRL(tmp_path, variant, Scripted([(3, 1.0)], kl_stop=1e-9), scheduled=True)
    run.run(2)
    assert run.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.97 ** (2 * steps))


def test_the_extra_pass_of_the_critic_moves_no_buffer():
    plain = build(3, norm=True)
    plain.train()
    monitored = attach(build(3, norm=True), verbose=0)
    monitored.train()
    state = monitored.loss_module.state_dict()
    assert any("running_mean" in name for name in state)
    assert_equal_bit_for_bit((state, plain.loss_module.state_dict()))


def test_several_agents_have_a_row_each():
    trainer = attach(build(1), "hindsight", verbose=0)
    agents = trainer._modules["value_estimator"].value_estimator.tensor_keys
    batch = TensorDict({"observation": torch.randn(STEPS, 2, 3)}, [STEPS])
    for name, value in ((agents.advantage, 1), (agents.value, 1), (agents.value_target, 1)):
        batch.set(name, torch.randn(STEPS, 2, value))
    trainer.loss_module.actor_network(batch)
    rows = trainer.adept._rows(batch)
    assert len(rows.groups) == rows.advantages.numel() == rows.deployed.numel() == 2 * STEPS
    assert rows.divergence() == pytest.approx(0, abs=1e-9)
    assert list(rows.groups[:4]) == [0, 0, 1, 1]
