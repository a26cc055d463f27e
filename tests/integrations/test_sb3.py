import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from hosts.sb3 import ENVS, MINIBATCHES, ROLLOUT, SB3, STEPS, build
from recording import Counting, Recorder, assert_same_state, counting_means
from sb3_contrib import TRPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
)
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import adept
from adept.integrations.sb3 import AdeptCallback


def test_returns_are_gae_returns(recorder):
    """With a discount, the reward is the mean of advantage + value, here summed over the definition of GAE."""
    model = build(gamma=0.9, gae_lambda=0.8)
    expected = []

    class Oracle(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            buffer = model.rollout_buffer
            last = model.policy.predict_values(torch.as_tensor(self.locals["new_obs"])).detach().numpy().flatten()
            values = np.vstack([buffer.values, last])
            alive = 1.0 - np.vstack([buffer.episode_starts[1:], self.locals["dones"]])
            deltas = buffer.rewards + 0.9 * values[1:] * alive - values[:-1]
            returns = [
                values[t, n]
                + sum((0.9 * 0.8) ** k * np.prod(alive[t : t + k, n]) * deltas[t + k, n] for k in range(STEPS - t))
                for t in range(STEPS)
                for n in range(ENVS)
            ]
            expected.append(np.mean(returns))

    model.learn(4 * ROLLOUT, CallbackList([Oracle(), AdeptCallback(recorder)]))
    recorder.assert_credits(expected)


@pytest.mark.parametrize("norm_reward", [True, False])
def test_vec_normalize_is_undone(recorder, norm_reward):
    env = VecNormalize(DummyVecEnv([Counting] * ENVS), norm_reward=norm_reward, clip_reward=np.inf)
    env.training = False
    env.ret_rms.var = np.array(25.0)
    model = build(env=env)
    model.learn(4 * ROLLOUT, AdeptCallback(recorder))
    assert model.rollout_buffer.rewards[-1, 0] == pytest.approx(4 * STEPS / (5.0 if norm_reward else 1.0))
    recorder.assert_credits(counting_means(4, STEPS))


def test_own_reward_and_nothing_to_credit():
    rewards = iter([None, 2.0, None, 4.0])
    scheduler = Recorder([3, 1, 2])
    build().learn(4 * ROLLOUT, AdeptCallback(scheduler, reward=lambda model: next(rewards)))
    assert scheduler.credits == [(3, 2.0), (2, 4.0)]


def test_target_kl_logs_the_asked_and_the_done_epochs(tmp_path):
    run = SB3(tmp_path, "ppo", Recorder([3, 1, 2]), settings={"target_kl": 1e-9, "learning_rate": 0.1})
    run.run(4)
    assert run.logged("adept/epochs") == [3, 1, 2]
    done = [len(rates) / MINIBATCHES for rates in run.rates]
    assert all(0 < epochs < 1 for epochs in done)
    assert run.logged("adept/epochs_done") == done[:-1]


def test_a_checkpoint_within_a_rollout_continues(tmp_path):
    def scheduler():
        return adept.GaussianThompson([3, 1, 2], seed=5)

    model = build()
    first = scheduler()
    checkpoint = CheckpointCallback(STEPS * 2 + 3, str(tmp_path))
    model.learn(3 * ROLLOUT, [checkpoint, AdeptCallback(first)])
    loaded = PPO.load(tmp_path / f"rl_model_{(STEPS * 2 + 3) * ENVS}_steps", env=DummyVecEnv([Counting] * ENVS))
    assert loaded.n_epochs == 7
    twin = scheduler()
    for mean in counting_means(2, STEPS):
        twin.step(mean)
    second = scheduler()
    loaded.learn(ROLLOUT, AdeptCallback(second))
    twin.step(counting_means(1, STEPS)[0])
    assert_same_state(second, twin)


def test_the_clip_range_follows_steps_not_epochs(tmp_path):
    run = SB3(tmp_path, "ppo", Recorder([3, 1, 2]), settings={"clip_range": lambda left: 0.2 * left})
    run.run(5)
    assert run.logged("train/clip_range") == pytest.approx([0.2 * (1 - number / 5) for number in range(1, 5)])


def test_other_callbacks_see_what_they_would_without(recorder, tmp_path):
    evaluation = EvalCallback(
        DummyVecEnv([Counting]), eval_freq=STEPS, n_eval_episodes=1, log_path=str(tmp_path), verbose=0
    )
    build().learn(3 * ROLLOUT, [evaluation, AdeptCallback(recorder)])
    assert len(evaluation.evaluations_timesteps) == 3
    assert recorder.chosen == [3, 1, 2]


def test_as_a_child_of_an_event_it_is_refused(recorder):
    with pytest.raises(ValueError, match=r"child of EveryNTimesteps.*list.*model\.learn"):
        build().learn(ROLLOUT, EveryNTimesteps(4, AdeptCallback(recorder)))


@pytest.mark.parametrize("algorithm", [TRPO, A2C, DQN])
def test_algorithms_without_epochs_are_refused(algorithm, recorder):
    model = algorithm("MlpPolicy", DummyVecEnv([Counting]), device="cpu")
    with pytest.raises(ValueError, match=rf"{algorithm.__name__} has no update epochs.*PPO.*train one of these"):
        model.learn(10, AdeptCallback(recorder))
