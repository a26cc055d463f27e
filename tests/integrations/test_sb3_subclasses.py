"""Models of Stable-Baselines3 with more than the usual: subclasses, odd settings, parameters changed by callbacks."""

import math

import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from hosts.sb3 import ROLLOUT, STEPS, build
from recording import Counting, Recorder
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from adept.integrations.sb3 import AdeptCallback

RATE = 0.02


class At(BaseCallback):
    """Calls a function when the rollout with this number, from 1, begins or has ended."""

    def __init__(self, number, function, *, begins=False):
        super().__init__()
        self._function, self._left, self._begins = function, number, begins

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        self._count(self._begins)

    def _on_rollout_end(self):
        self._count(not self._begins)

    def _count(self, now):
        self._left -= now
        if now and not self._left:
            self._function()


class Annealing(PPO):
    """Makes one epoch less in every update."""

    def train(self):
        super().train()
        self.n_epochs = max(1, self.n_epochs - 1)


def test_what_a_subclass_sets_in_its_update_stays():
    def learned(updates, callback=None):
        model = build(Annealing, learning_rate=RATE, n_epochs=4)  # which sets the seed of every generator
        model.learn(updates * ROLLOUT, callback)
        return model

    plain, monitored = learned(4), learned(4, AdeptCallback(verbose=0))
    assert plain.n_epochs == monitored.n_epochs == 1
    assert all(map(torch.equal, plain.policy.parameters(), monitored.policy.parameters()))
    steered = learned(1, AdeptCallback(Recorder([3]), verbose=0))
    assert steered.n_epochs == 2, "of the 3 epochs that were chosen"


def test_a_get_of_the_buffers_own_is_called_and_stays():
    model, calls = build(learning_rate=RATE, n_epochs=4), []

    def get(*args):
        calls.append(args)
        return type(model.rollout_buffer).get(model.rollout_buffer, *args)

    model.rollout_buffer.get = get
    callback = AdeptCallback(gains_every=1, verbose=0)
    model.learn(2 * ROLLOUT, callback)
    assert len(calls) == 2 * 4
    assert model.rollout_buffer.get is get
    assert list(callback.engine.feedback.gain_by_epoch) == [1, 2, 4]


class LooksFirst(PPO):
    """Looks at the whole rollout before the first epoch."""

    def train(self):
        next(iter(self.rollout_buffer.get(None)))
        super().train()


def test_a_look_at_the_rollout_is_no_epoch():
    gains = []
    for cls in (PPO, LooksFirst):
        callback = AdeptCallback(gains_every=1, verbose=0)
        # One minibatch: its order does not matter.
        model = build(cls, learning_rate=RATE, n_epochs=4, batch_size=ROLLOUT)
        model.learn(2 * ROLLOUT, callback)
        gains.append({epoch: gain.value for epoch, gain in callback.engine.feedback.gain_by_epoch.items()})
    assert gains[1] == pytest.approx(gains[0], rel=1e-4)
    assert gains[0][1] != 0


def test_a_recurrent_policy_may_train_on_whole_rollouts():
    contrib = pytest.importorskip("sb3_contrib")
    model = contrib.RecurrentPPO(
        "MlpLstmPolicy", DummyVecEnv([Counting]), n_steps=STEPS, batch_size=None, n_epochs=3, seed=1, device="cpu"
    )
    callback = AdeptCallback(verbose=0)
    model.learn(3 * STEPS, callback)
    assert callback.engine._history[-1]["epochs_done"] == 3.0


def test_parameters_that_are_loaded_during_a_training_are_no_update():
    model, callback = build(learning_rate=RATE), AdeptCallback("hindsight", verbose=0)
    evaluations = []
    start = {name: value.clone() for name, value in model.policy.state_dict().items()}
    load = At(3, lambda: model.policy.load_state_dict(start), begins=True)
    model.learn(4 * ROLLOUT, [load, callback, *(At(number, lambda: evaluations.append(callback.engine.feedback))
                                               for number in range(1, 5))])  # fmt: skip
    assert [evaluation is not None for evaluation in evaluations] == [False, True, False, True]


@pytest.mark.parametrize("given", [None, "hindsight"])
def test_layers_may_be_frozen_during_a_training(given, recwarn):
    model, callback = build(learning_rate=RATE), AdeptCallback(given, verbose=0)
    model.learn(6 * ROLLOUT, [At(3, lambda: model.policy.mlp_extractor.requires_grad_(False)), callback])
    assert callback.engine.feedback.slope.known
    assert not [warning for warning in recwarn if "stopped evaluating" in str(warning.message)]


def test_epochs_that_another_callback_sets_are_those_logged():
    model, callback = build(), AdeptCallback(verbose=0)
    model.learn(3 * ROLLOUT, [At(2, lambda: setattr(model, "n_epochs", 2)), callback])
    assert [(row["epochs"], row["epochs_done"]) for row in callback.engine._history] == [(7, 7), (2, 2), (2, 2)]


def test_a_choice_that_was_not_carried_out_is_not_credited():
    model, scheduler = build(learning_rate=RATE), Recorder([3, 1, 2])
    callback = AdeptCallback(scheduler, verbose=0)
    with pytest.raises(ZeroDivisionError):
        model.learn(3 * ROLLOUT, [callback, At(2, lambda: 1 / 0)])
    model.learn(2 * ROLLOUT, callback, reset_num_timesteps=False)
    assert scheduler.chosen == [3, 1, 2, 3]
    assert [arm for arm, _ in scheduler.credits] == [3, 2]  # the choice of 1 led to no update


class Mixed(nn.Module):
    """A feature extractor with dropout."""

    def __init__(self, space):
        super().__init__()
        self.features_dim = 16
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(space.shape), 16), nn.Tanh(), nn.Dropout(0.5))

    def forward(self, observations):
        return self.layers(observations)


def with_dropout(learning_rate):
    policy = {"features_extractor_class": Mixed, "net_arch": [64]}
    return build(learning_rate=learning_rate, policy_kwargs=policy, n_epochs=4)


def test_dropout_does_not_end_updates():
    model = with_dropout(1e-4)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(300)  # a policy that dropout changes by far more than one update
    callback = AdeptCallback({"name": "hindsight", "kl_stop": 0.02}, verbose=0)
    model.learn(4 * ROLLOUT, callback)
    assert [row["epochs_done"] for row in callback.engine._history] == [4.0] * 4
    assert model.policy.training, "as an update leaves it"


def test_the_guard_ends_updates_of_a_policy_with_dropout():
    model = with_dropout(0.3)
    callback = AdeptCallback({"name": "hindsight", "kl_stop": 1e-12}, verbose=0)
    model.learn(ROLLOUT, callback)
    assert callback.engine._history[0]["epochs_done"] == 1.0


def test_a_target_of_the_models_own_is_no_reason_for_longer_steps():
    feedback = []
    model, callback = build(learning_rate=0.3, target_kl=1e-6), AdeptCallback("hindsight", verbose=0)
    callback.engine._pool = lambda found: feedback.append(found) or found
    model.learn(4 * ROLLOUT, callback)
    assert [found.stopped for found in feedback[1:]] == [True] * 3
