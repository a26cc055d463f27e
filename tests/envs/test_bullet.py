"""The lean walkers against the original environments, stepped side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pybullet = pytest.importorskip("pybullet")
pytest.importorskip("pybullet_envs_gymnasium")

from adept.envs import BACKENDS, bullet  # noqa: E402 (after the checks for what the robots need)

each_robot = pytest.mark.parametrize("robot", BACKENDS["pybullet"].tasks)


def physics_of(client: int) -> tuple[Any, ...]:
    """Return position and velocity of every joint and of the base; the robot is the second body loaded."""
    joints = range(pybullet.getNumJoints(1, physicsClientId=client))
    states = pybullet.getJointStates(1, joints, physicsClientId=client)
    base = pybullet.getBasePositionAndOrientation(1, physicsClientId=client)
    return [state[:2] for state in states], base, pybullet.getBaseVelocity(1, physicsClientId=client)


def draw_actions(env: Any, steps: int, seed: int, reach: float = 1.0) -> np.ndarray:
    """Return random actions; in every second 500 steps each is held for 10, so that the robots also move far."""
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(-reach, reach, (steps, *env.action_space.shape)).astype(np.float32)
    step = np.arange(steps)
    return drawn[np.where(step // 500 % 2 == 1, step // 10 * 10, step)]


def compare(robot: str, steps: int) -> tuple[int, int]:
    """Step both sides and compare everything; return how many episodes were terminated and truncated."""
    original, lean = gymnasium.make(f"{robot}BulletEnv-v0"), bullet.Walker(robot)
    expected, _ = original.reset(seed=7)
    observation, _ = lean.reset(seed=7)
    clients = original.unwrapped.physicsClientId, lean._client
    assert lean.action_space == original.action_space
    assert lean.observation_space == original.observation_space
    assert np.array_equal(observation, expected)
    ends = [0, 0]
    for step, action in enumerate(draw_actions(lean, steps, seed=1, reach=1.3)):  # beyond 1: clipped by both
        expected, expected_reward, *expected_ends, _ = original.step(action)
        observation, reward, *found_ends, info = lean.step(action)
        assert physics_of(clients[1]) == physics_of(clients[0]), f"physics differ at step {step}"
        assert observation.dtype == np.float32
        np.testing.assert_allclose(observation, expected, rtol=2e-7, atol=1e-7, err_msg=f"step {step}")
        np.testing.assert_allclose(reward, expected_reward, rtol=1e-6, atol=1e-6, err_msg=f"step {step}")
        assert found_ends == expected_ends, f"ends differ at step {step}"
        assert info == {}
        if any(found_ends):
            ends[0] += found_ends[0]
            ends[1] += found_ends[1]
            expected, _ = original.reset()
            observation, _ = lean.reset()
            assert physics_of(clients[1]) == physics_of(clients[0]), f"reset at step {step}"
            np.testing.assert_allclose(observation, expected, rtol=2e-7, atol=1e-7, err_msg=f"reset at step {step}")
    original.close()
    lean.close()
    return ends[0], ends[1]


@each_robot
def test_500_steps_equal_the_original(robot: str) -> None:
    terminated, _ = compare(robot, 500)
    assert (terminated > 5) == (robot in ("Hopper", "Walker2D"))


@pytest.mark.slow
@each_robot
def test_10000_steps_equal_the_original(robot: str) -> None:
    terminated, truncated = compare(robot, 10_000)
    if robot in ("Hopper", "Walker2D"):
        assert terminated > 100
    else:
        assert truncated >= 1


def spin_a_joint(client: int) -> None:
    pybullet.resetJointState(1, 4, 0.0, 400.0, physicsClientId=client)


def sink_into_the_ground(client: int) -> None:
    pybullet.resetBasePositionAndOrientation(1, [0, 0, -2], [0, 0, 0, 1], physicsClientId=client)


def break_the_physics(client: int) -> None:
    pybullet.resetJointState(1, 8, float("nan"), 0.0, physicsClientId=client)


@pytest.mark.parametrize(
    ("robot", "provoke", "ends"),
    [
        ("HalfCheetah", spin_a_joint, False),
        ("Ant", sink_into_the_ground, True),
        ("HalfCheetah", break_the_physics, True),
    ],
)
def test_what_random_steps_seldom_meet(robot: str, provoke: Callable[[int], None], ends: bool) -> None:
    original, lean = gymnasium.make(f"{robot}BulletEnv-v0", disable_env_checker=True), bullet.Walker(robot)
    action = np.full(lean.action_space.shape, 0.5, np.float32)
    results = []
    for env in (original, lean):
        env.reset(seed=7)
        provoke(lean._client if env is lean else original.unwrapped.physicsClientId)
        results.append(env.step(action)[:3])
    (expected, expected_reward, expected_end), (observation, reward, end) = results
    np.testing.assert_allclose(observation, expected, rtol=2e-7, atol=1e-7)
    np.testing.assert_allclose(reward, expected_reward, rtol=1e-6, atol=1e-6)
    assert end == expected_end == ends
    if provoke is spin_a_joint:
        assert np.abs(expected).max() == 5  # so the clip was met


def trajectory(env: bullet.Walker, seed: int, steps: int = 60) -> list[Any]:
    """Return all that a seed leads to, resets included."""
    seen: list[Any] = [env.reset(seed=seed)[0].tolist()]
    for action in draw_actions(env, steps, seed=5):
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append((observation.tolist(), reward, terminated, truncated))
        if terminated or truncated:
            seen.append(env.reset()[0].tolist())
    return seen


@each_robot
def test_a_seed_fixes_everything_in_a_fresh_and_in_a_used_environment(robot: str) -> None:
    env = bullet.Walker(robot)
    expected = trajectory(env, seed=3)
    assert trajectory(env, seed=4) != expected
    env.reset()
    assert trajectory(env, seed=3) == expected
    assert trajectory(bullet.Walker(robot), seed=3) == expected


def test_two_environments_do_not_disturb_each_other() -> None:
    expected = trajectory(bullet.Walker("Hopper"), seed=3)
    one, other = bullet.Walker("Hopper"), bullet.Walker("Ant")
    actions = draw_actions(one, 60, seed=5)
    other.reset(seed=1)
    seen: list[Any] = [one.reset(seed=3)[0].tolist()]
    for step, action in enumerate(actions):
        other.step(other.action_space.sample())
        observation, reward, terminated, truncated, _ = one.step(action)
        seen.append((observation.tolist(), reward, terminated, truncated))
        if step % 20 == 9:
            other.reset(seed=step)
        if step == 45:
            other.close()
            other.reset()
        if terminated or truncated:
            seen.append(one.reset()[0].tolist())
    assert seen == expected


def test_the_time_limit_truncates_at_the_registered_step() -> None:
    env = bullet.Walker("HalfCheetah")
    env.reset(seed=0)
    still = np.zeros(6, np.float32)
    for _ in range(2):
        cuts = [env.step(still)[3] for _ in range(1000)]
        assert cuts == [False] * 999 + [True]
        env.reset()


def test_an_observation_stays_as_it_was_returned() -> None:
    env = bullet.Walker("Hopper")
    first, _ = env.reset(seed=0)
    kept = first.copy()
    second = env.step(np.ones(3, np.float32))[0]
    third = env.step(np.ones(3, np.float32))[0]
    assert np.array_equal(first, kept)
    assert not np.array_equal(second, third)


def test_a_picture_is_drawn_and_does_not_disturb_the_run() -> None:
    env = bullet.Walker("Ant")
    action = np.full(8, 0.5, np.float32)
    env.reset(seed=0)
    undisturbed = [env.step(action)[1] for _ in range(5)]
    env.reset(seed=0)  # closes the first client, without which Bullet's camera calls fail
    picture = env.render()
    assert picture.shape == (240, 320, 3)
    assert picture.dtype == np.uint8
    assert len(np.unique(picture)) > 20
    rewards = []
    for _ in range(5):
        rewards.append(env.step(action)[1])
        env.render()
    assert rewards == undisturbed
    assert not np.array_equal(env.render(), picture)


@each_robot
def test_the_weights_of_the_centres_hold(robot: str) -> None:
    _, locomotion = bullet._import_bullet()
    original = getattr(locomotion, f"{robot}BulletEnv")
    assert bullet._centres(pybullet, original) == bullet._WEIGHTS[robot]


def test_weights_that_do_not_hold_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trajectory(bullet.Walker("Hopper"), seed=3)
    wrong = {"torso": 2, "foot": 8}
    monkeypatch.setitem(bullet._WEIGHTS, "Hopper", wrong)
    bullet._centres.cache_clear()
    try:
        env = bullet.Walker("Hopper")
        found = trajectory(env, seed=3)
        assert env._weights == [1] * 9
    finally:
        bullet._centres.cache_clear()
    np.testing.assert_allclose([step[1] for step in found[1:3]], [step[1] for step in expected[1:3]], atol=1e-9)


def test_a_missing_package_is_told_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pybullet_envs_gymnasium.gym_locomotion_envs", None)
    with pytest.raises(ImportError, match=r"pip install 'adept-rl\[pybullet\]'"):
        bullet.Walker("Ant")


def test_mistakes_of_use_are_named() -> None:
    env = bullet.Walker("Hopper")
    for use in (lambda: env.step(np.zeros(3, np.float32)), env.render):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            use()
    env.reset(seed=0)
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="actions must be finite"):
            env.step(np.array([0, wrong, 0], np.float32))
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(3, np.float32))


def test_nothing_but_our_own_lines_reaches_stdout_and_stderr() -> None:
    script = (
        "import sys, numpy as np\n"
        "from adept.envs import bullet\n"
        "env = bullet.Walker('Hopper'); env.reset(seed=0); env.step(np.zeros(3, np.float32)); env.render()\n"
        "env.reset(seed=1); env.close(); print('out'); print('err', file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "out\n"
    assert done.stderr == "err\n"


def test_other_lines_of_an_import_are_let_through(capfd: pytest.CaptureFixture[str]) -> None:
    with bullet._without_chatter():
        os.write(2, b"pybullet build time: yesterday\na real error\n")
    assert capfd.readouterr().err == "a real error\n"
