from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from adept.config import Config
from adept.envs import Continuous, Discrete, make_environments, pool
from adept.envs.pool import PoolEnvironments

envpool = pytest.importorskip("envpool")


def config(env: str, count: int = 3) -> Config:
    return Config(env=env, environments=count, rollout_length=8, minibatch_size=8 * count, steps=8 * count)


@pytest.mark.parametrize("env_id", ["MiniGrid-Empty-5x5-v0", "CartPole-v1", "Hopper-v4", "FrozenLake-v1"])
def test_a_pool_gives_the_rows_of_envpool_without_its_resets(env_id: str) -> None:
    """Stepping EnvPool by its public methods, with the same seeds and actions: equal but for the rows after an end."""
    count, steps = 4, 900
    ours = PoolEnvironments(env_id, count)
    rng = np.random.default_rng(0)
    if isinstance(ours.actions, Discrete):
        actions = rng.integers(0, min(ours.actions.n, 3), (count, steps))
    else:
        actions = rng.uniform(-1, 1, (count, steps, len(ours.actions.low))).astype(np.float32)
    theirs = envpool.make(env_id, env_type="gymnasium", num_envs=count, seed=7)

    def observed(raw: Any) -> np.ndarray:
        array = raw["image"].transpose(0, 3, 1, 2) if isinstance(raw, dict) else raw.reshape(count, -1)
        return array.astype(ours.observation_dtype)

    # Drive each environment of EnvPool one by one, feeding its own actions and dropping its reset rows.
    assert np.array_equal(ours.restart(7), observed(theirs.reset()[0]))
    taken = np.zeros(count, np.int64)
    resetting = np.zeros(count, np.bool_)
    rows: list[list[tuple[float, bool, bool, bytes, bytes]]] = [[] for _ in range(count)]
    ends = 0
    while taken.min() < steps:
        chosen = np.array([actions[i, min(taken[i], steps - 1)] for i in range(count)])
        raw, rewards, terminated, truncated, _ = theirs.step(chosen)
        for i, observation in enumerate(observed(raw)):
            seen = observation.tobytes()
            if resetting[i]:
                *end, last, _ = rows[i][-1]
                rows[i][-1] = (*end, last, seen)  # what to act on next is the new episode's first
            else:
                rows[i].append((float(rewards[i]), bool(terminated[i]), bool(truncated[i]), seen, seen))
                taken[i] += 1
            resetting[i] = not resetting[i] and (terminated[i] or truncated[i])
            ends += int(resetting[i])
    assert ends > 20
    for step in range(steps - 1):
        result = ours.step(actions[:, step])
        finals = [] if result.final_observations is None else [row.tobytes() for row in result.final_observations]
        expected = [rows[i][step] for i in range(count)]
        assert finals == [last for _, ended, cut, last, _ in expected if ended or cut]
        found = zip(result.rewards, result.terminated, result.truncated, result.observations, strict=True)
        assert [(float(reward), bool(ended), bool(cut), seen.tobytes()) for reward, ended, cut, seen in found] == [
            (reward, ended, cut and not ended, seen) for reward, ended, cut, _, seen in expected
        ]
    ours.close()


def test_an_envpool_without_what_steps_call_is_told_the_version_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IN_CPP", (*pool.IN_CPP, "_elsewhere"))
    with pytest.raises(ValueError, match=r"EnvPool 1\.\S+ has no _elsewhere, .* pip install envpool==1"):
        PoolEnvironments("CartPole-v1", 1)


@pytest.mark.parametrize(
    ("env", "shape", "dtype", "actions"),
    [
        ("minigrid/DoorKey-6x6", (3, 7, 7), np.uint8, Discrete(7)),
        ("gymnasium/CartPole-v1", (4,), np.float32, Discrete(2)),
        ("gymnasium/Pendulum-v1", (3,), np.float32, Continuous((-2.0,), (2.0,))),
        ("gymnasium/tiny/Identity-v0", (3,), np.float32, Discrete(3)),
        ("gymnasium/tiny/Picture-v0", (3, 64, 64), np.uint8, Discrete(3)),
        ("envpool/Pong-v5", (4, 84, 84), np.uint8, Discrete(6)),
        ("envpool/HalfCheetah-v4", (17,), np.float32, Continuous((-1.0,) * 6, (1.0,) * 6)),
        ("envpool/CartPole-v1", (4,), np.float32, Discrete(2)),
        pytest.param("procgen/bigfish", (3, 64, 64), np.uint8, Discrete(15), marks=pytest.mark.procgen),
        ("pybullet/Hopper", (15,), np.float32, Continuous((-1.0,) * 3, (1.0,) * 3)),
    ],
)
def test_every_backend_keeps_the_contract(env: str, shape: tuple[int, ...], dtype: type, actions: object) -> None:
    """Shapes and types, and the same seed twice gives the same rows: restarted, and made anew."""
    if env.startswith("pybullet"):
        pytest.importorskip("pybullet")
    trajectories = []
    environments = make_environments(config(env))
    for attempt in range(3):
        if attempt == 2:
            environments.close()
            environments = make_environments(config(env))
        assert environments.observation_shape == shape
        assert environments.observation_dtype == dtype
        assert environments.actions == actions
        rng = np.random.default_rng(0)
        rows = [environments.restart(5)]
        for _ in range(60):
            if isinstance(actions, Discrete):
                chosen = rng.integers(0, actions.n, 3)
            else:
                assert isinstance(actions, Continuous)
                chosen = rng.uniform(actions.low, actions.high, (3, len(actions.low))).astype(np.float32)
            result = environments.step(chosen)
            assert result.observations.shape == (3, *shape)
            assert result.observations.dtype == dtype
            assert result.rewards.dtype == np.float32
            assert not (result.terminated & result.truncated).any()
            rows.append(result.observations.copy())
            rows.append(result.rewards.copy())
        trajectories.append(b"".join(row.tobytes() for row in rows))
    environments.close()
    assert trajectories[0] == trajectories[1] == trajectories[2]


@pytest.mark.procgen
def test_procgen_levels() -> None:
    """With one level every restart shows the same picture; the test has all of them, and pictures that differ."""
    coinrun = dataclasses.replace(config("procgen/coinrun", 4), levels=1)
    one = make_environments(coinrun).restart(3)
    assert all(np.array_equal(one[0], picture) for picture in one)
    many = make_environments(coinrun, test_levels=True).restart(3)
    assert not all(np.array_equal(many[0], picture) for picture in many)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("minigrid/DoorKey-6x7", "did you mean 'DoorKey-6x6'"),
        ("procgen/bigfsh", "did you mean 'bigfish'"),
        ("pybullet/Walker2d", r"unknown PyBullet robot 'Walker2d', expected one of Ant, .*'Walker2D'"),
        ("gymnasium/CartPol-v1", "did you mean 'CartPole-v1'"),
        ("envpool/Pong-v4", "did you mean 'Pong-v5'"),
        ("minigird/DoorKey-6x6", "did you mean 'minigrid'"),
        ("gymnasium/Blackjack-v1", None),
    ],
)
def test_unknown_names_answer_with_the_nearest(env: str, message: str | None) -> None:
    if message is None:
        assert make_environments(config(env)).observation_shape == (32 + 11 + 2,)  # a tuple, flattened
    else:
        with pytest.raises(ValueError, match=message):
            make_environments(config(env))


def test_atari_is_trained_by_lives_and_clipped_rewards_and_evaluated_by_games() -> None:
    """Breakout has five lives: at random, the first end comes far earlier where an episode is one of them."""
    ends = []
    for evaluating in (False, True):
        environments = make_environments(config("envpool/Breakout-v5", 1), evaluating=evaluating)
        environments.restart(3)
        rng = np.random.default_rng(0)
        steps, ended = 0, False
        while not ended:
            result = environments.step(rng.integers(0, 4, 1))
            assert evaluating or abs(result.rewards[0]) in (0.0, 1.0)
            steps, ended = steps + 1, bool(result.terminated[0])
        ends.append(steps)
        environments.close()
    assert ends[0] < ends[1] / 2
