"""Time one environment step: the original PyBullet walkers, the lean ones, and Bullet's physics alone.

    python benchmarks/pybullet_step.py [--repeats 40] [--steps 200]

The three run in turn, a block of steps each, on the same actions from the same seed, so that they see the same
states and the same load of the machine. Reported is the median over the blocks, in processor time (all three keep
one core busy, and waiting for a core that others use is no part of them); resets are timed apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import thread_time
from typing import Any

import gymnasium
import numpy as np

from adept.envs import bullet

Block = tuple[float, float, list[int]]  # milliseconds per step, per reset (nan: none), steps after which were resets


def run_block(env: gymnasium.Env[Any, Any], actions: np.ndarray) -> Block:
    """Step an environment, resetting it at the ends of episodes."""
    resets, resetting, began = [], 0.0, thread_time()
    for step, action in enumerate(actions):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            resets.append(step)
            stopped = thread_time()
            env.reset()
            resetting += thread_time() - stopped
    stepping = thread_time() - began - resetting
    return 1e3 * stepping / len(actions), 1e3 * resetting / len(resets) if resets else float("nan"), resets


def physics(original: Any) -> Callable[[np.ndarray, list[int]], float]:
    """Return a function that moves the motors and steps the physics, and nothing else, resetting where it is told."""
    import pybullet

    world = original.unwrapped
    body, joints = world.robot.objects[0], world.robot.ordered_joints
    gains = np.array([world.robot.power * joint.power_coef for joint in joints])
    indices, client = [joint.jointIndex for joint in joints], world.physicsClientId

    def run(actions: np.ndarray, resets: list[int]) -> float:
        torques, stops, resetting, began = (actions * gains).tolist(), set(resets), 0.0, thread_time()
        for step, forces in enumerate(torques):
            pybullet.setJointMotorControlArray(
                body, indices, pybullet.TORQUE_CONTROL, forces=forces, physicsClientId=client
            )
            pybullet.stepSimulation(client)
            if step in stops:
                stopped = thread_time()
                original.reset()
                resetting += thread_time() - stopped
        return 1e3 * (thread_time() - began - resetting) / len(torques)

    return run


def measure(robot: str, repeats: int, steps: int) -> str:
    lean = bullet.make(robot)
    original, bare = (gymnasium.make(f"{robot}BulletEnv-v0") for _ in range(2))
    for env in (lean, original, bare):
        env.reset(seed=1)
    alone, rng = physics(bare), np.random.default_rng(1)
    blocks = []
    for _ in range(repeats):
        actions = rng.uniform(-1, 1, (steps, *lean.action_space.shape)).astype(np.float32)
        theirs, ours = run_block(original, actions), run_block(lean, actions)
        assert theirs[2] == ours[2], "the two sides did not end their episodes at the same steps"
        blocks.append((theirs[0], ours[0], theirs[0] / ours[0], alone(actions, ours[2]), theirs[1], ours[1]))
    for env in (lean, original, bare):
        env.close()
    before, after, ratio, floor, *_ = (median(column) for column in zip(*blocks, strict=True))
    slow, quick = (np.nanmedian([block[column] for block in blocks]) for column in (4, 5))
    return (
        f"{robot:<12}{before:>10.3f}{after:>10.3f}{ratio:>8.2f}{floor:>10.3f}{floor / after:>9.0%}"
        f"{slow:>12.3f}{quick:>10.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--steps", type=int, default=200, help="steps of a block")
    options = parser.parse_args()
    rows = [measure(robot, options.repeats, options.steps) for robot in bullet.ROBOTS]
    # Below what the original makes Bullet print.
    print(" " * 12 + "ms per step" + " " * 36 + "ms per reset")
    print(
        f"{'robot':<12}{'original':>10}{'lean':>10}{'ratio':>8}{'physics':>10}{'share':>9}{'original':>12}{'lean':>10}"
    )
    print("\n".join(rows))


if __name__ == "__main__":
    main()
