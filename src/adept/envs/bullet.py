"""PyBullet's four walkers, with a handful of calls to Bullet per step where the original makes over a hundred.

The world is the one of `pybullet_envs_gymnasium`: its classes load the robot and the ground, set the physics and
hold the rules of life. Only what runs at every step and every restart is rewritten, with batched queries, so
that joint states are identical to the original's, and observations and rewards equal to float32 rounding.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_ANY_LINK = -2
_OBSERVATION_LIMIT = 5.0
# The original counts joints whose float32 position passes float32(0.99). A float64 rounds to more than that when it
# passes the midpoint to the next float32, so the comparison needs no float32 array.
_JOINT_LIMIT = (float(np.float32(0.99)) + float(np.nextafter(np.float32(0.99), np.float32(1)))) / 2

_link_of_a = itemgetter(3)

# The walkers' progress is that of the mean of their parts' centres of mass in the plane. Many of these centres follow
# from others, as joints sit at a part's centre, at its end (twice as far as its centre) or on opposite sides of the
# torso: the sum over all parts is that of a few with these weights. `_centres` checks it before it is used. (Ant's
# torso stands for itself alone: Bullet reports its pose one substep ahead of the links'.)
_WEIGHTS = {
    "Ant": {"torso": 1, "front_left_leg": 2, "left_back_leg": 2, "aux_1": 3, "aux_2": 3, "aux_3": 3, "aux_4": 3}
    | {"front_left_foot": 1, "front_right_foot": 1, "left_back_foot": 1, "right_back_foot": 1},
    "HalfCheetah": {"torso": 4, "bthigh": 2, "bshin": 2, "bfoot": 2, "fthigh": 2, "fshin": 2, "ffoot": 2},
    "Hopper": {"torso": 1, "link0_4": 3, "link0_6": 1, "thigh": 1, "leg": 3, "foot": 1},
    "Walker2D": {"torso": 1, "link0_4": 3, "link0_6": 2, "thigh": 1, "leg": 3, "foot": 1}
    | {"thigh_left": 1, "leg_left": 3, "foot_left": 1},
}


class Walker(gymnasium.Env[Array, Array]):
    """A robot of `pybullet_envs_gymnasium` in its own physics client, time limit included.

    `reset()` restores the state saved after the first reset, as the original does, number for number. `reset(seed=s)`
    builds the world again (some 20 ms), so that a used environment goes on exactly as a fresh one. The original's does
    not: in the first reset of its life it leaves the ground out of the mean of its parts, which is in later ones.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012 (as gymnasium declares it)
    render_mode = "rgb_array"

    def __init__(self, name: str) -> None:
        self._bullet, locomotion = _import_bullet()
        self._original = getattr(locomotion, f"{name}BulletEnv")
        spec = gymnasium.spec(f"{name}BulletEnv-v0")
        assert spec.max_episode_steps is not None
        self._time_limit = spec.max_episode_steps
        self._world: Any = None
        self._elapsed = self._at_limit = 0
        self._initial_z = self._potential = self._pitch = self._distance = self._power = 0.0
        self._finite = True
        robot = self._original().robot  # loads nothing: a world is built at the first reset
        self.action_space = robot.action_space
        self.observation_space = robot.observation_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode; with a seed, in a newly built world."""
        self._elapsed = 0
        if self._world is None or seed is not None:
            return self._build(seed), {}
        return self._restart(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Apply joint torques in [−1, 1] for one frame of 4 substeps."""
        if self._world is None:
            raise gymnasium.error.ResetNeeded("step() needs a world, which reset() builds; call reset() first")
        bullet, client = self._bullet, self._client
        commands: list[float] = action.tolist()
        torques, effort = [], 0.0
        for command, gain in zip(commands, self._gains, strict=True):
            effort += command * command
            torques.append(gain * (command if -1.0 <= command <= 1.0 else math.copysign(1.0, command)))
        if not math.isfinite(effort):
            raise ValueError(f"actions must be finite numbers in [-1, 1], got {commands}; look for NaN in the policy")
        bullet.setJointMotorControlArray(
            self._body, self._joints, bullet.TORQUE_CONTROL, forces=torques, physicsClientId=client
        )
        bullet.stepSimulation(client)

        observation = self._observe(commands)
        # The original adds the float32 height of the observation to the float64 initial height: so do we, for
        # the rule of life must fall at the same step.
        world = self._world
        world._alive = alive = float(self._robot.alive_bonus(observation.item(0) + self._initial_z, self._pitch))
        terminated = world._isDone() or not self._finite
        potential = -self._distance / self._frame
        reward = alive + (potential - self._potential)
        reward += (self._electricity_cost * self._power + self._stall_torque_cost * effort) / len(commands)
        reward += self._limit_cost * self._at_limit
        self._potential = potential
        self._feel_ground()
        self._elapsed += 1
        return observation, reward, terminated, self._elapsed >= self._time_limit, {}

    def render(self) -> Any:
        """Return a picture of the robot, uint8 [240, 320, 3]."""
        if self._world is None:
            raise gymnasium.error.ResetNeeded("render() needs a world, which reset() builds; call reset() first")
        self._robot.body_real_xyz = self._torso
        return np.asarray(self._world.render(), dtype=np.uint8)

    def close(self) -> None:
        """Disconnect from the physics; a later reset builds a new world."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _build(self, seed: int | None) -> Array:
        """Let the original load and reset a new world, and note what the steps need of it."""
        self.close()
        world = _new_world(self._bullet, self._original)
        observation, _ = world.reset(seed=seed)
        robot = world.robot
        self._world, self._robot, self._client, self._body = world, robot, world.physicsClientId, robot.objects[0]
        self.np_random = world.np_random

        self._joints = [joint.jointIndex for joint in robot.ordered_joints]
        self._gains = [robot.power * joint.power_coef for joint in robot.ordered_joints]
        self._ranges = [(joint.lowerLimit, joint.upperLimit - joint.lowerLimit) for joint in robot.ordered_joints]
        self._still = [0.0] * len(self._joints)
        self._at_rest = [[0.0]] * len(self._joints)

        ground = robot.parts["floor"]
        self._ground = ground.bodies[ground.bodyIndex]
        # The original averages over the parts of the robot and, from the first step on, the ground.
        self._parts = len(robot.parts)
        self._fixed_x, self._fixed_y, _ = ground.current_position().tolist()
        self._root = robot.robot_body.bodyPartIndex
        weights = {
            robot.parts[part].bodyPartIndex: weight for part, weight in _centres(self._bullet, self._original).items()
        }
        self._root_weight = weights.pop(self._root)
        self._links, self._weights = list(weights), list(weights.values())
        self._feet = [foot.bodyPartIndex for foot in robot.feet]
        self._contact = [0.0] * len(self._feet)
        robot.feet_contact = self._contact  # the rule of life reads it, and a list is quicker to read

        self._frame: float = world.scene.dt
        self._electricity_cost: float = world.electricity_cost
        self._stall_torque_cost: float = world.stall_torque_cost
        self._limit_cost: float = world.joints_at_limit_cost
        self._initial_z = float(robot.initial_z)
        self._potential = float(world.potential)
        self._torso = tuple(robot.body_real_xyz)
        return np.asarray(observation, dtype=np.float32)

    def _restart(self) -> Array:
        """Restore the state saved after the build and draw new joint positions, as the original does.

        What it does besides changes nothing: the motors are off since the build, and the torso starts where it did.
        """
        self._bullet.restoreState(self._world.stateId, physicsClientId=self._client)
        positions = self.np_random.uniform(-0.1, 0.1, size=(len(self._joints), 1)).tolist()
        self._bullet.resetJointStatesMultiDof(self._body, self._joints, positions, self._at_rest, self._client)
        self._contact[:] = [0.0] * len(self._contact)
        observation = self._observe(self._still)
        self._potential = -self._distance / self._frame
        return observation

    def _observe(self, commands: list[float]) -> Array:
        """Return the observation, and note what the reward needs of this state and these commands."""
        bullet, client, body, robot = self._bullet, self._client, self._body, self._robot
        torso, quaternion, (vx, vy, vz) = self._root_state()
        x, y = self._fixed_x + self._root_weight * torso[0], self._fixed_y + self._root_weight * torso[1]
        links = bullet.getLinkStates(body, self._links, 0, 0, client)
        for index, weight in enumerate(self._weights):
            position = links[index][0]
            x += weight * position[0]
            y += weight * position[1]
        ahead, aside = robot.walk_target_x - x / self._parts, robot.walk_target_y - y / self._parts
        self._distance = math.sqrt(aside * aside + ahead * ahead)
        self._torso = torso
        roll, pitch, yaw = bullet.getEulerFromQuaternion(quaternion)
        self._pitch = pitch
        angle = math.atan2(aside, ahead) - yaw
        cos, sin = math.cos(yaw), math.sin(yaw)  # to turn the speed into the body's view
        values = [torso[2] - self._initial_z, math.sin(angle), math.cos(angle)]
        values += (0.3 * (cos * vx + sin * vy), 0.3 * (cos * vy - sin * vx), 0.3 * vz, roll, pitch)

        power, at_limit, joints = 0.0, 0, bullet.getJointStates(body, self._joints, client)
        for index, (low, span) in enumerate(self._ranges):
            joint = joints[index]
            place, speed = 2 * (joint[0] - low) / span - 1.0, 0.1 * joint[1]
            values.append(place)
            values.append(speed)
            power += abs(commands[index] * speed)
            if place > _JOINT_LIMIT or place < -_JOINT_LIMIT:
                at_limit += 1
        self._power, self._at_limit = power, at_limit
        values += self._contact
        observation = np.array(values, np.float32)
        np.maximum(observation, -_OBSERVATION_LIMIT, out=observation)  # np.clip costs more than both
        np.minimum(observation, _OBSERVATION_LIMIT, out=observation)
        # An infinity is clipped, as the original does before it looks; only NaN is left to end the episode.
        self._finite = math.isfinite(sum(values)) or bool(np.isfinite(observation).all())
        return observation

    def _root_state(self) -> tuple[Any, Any, tuple[float, float, float]]:
        """Return the torso's position, orientation and speed."""
        bullet, client, body, root = self._bullet, self._client, self._body, self._root
        if root < 0:
            position, quaternion = bullet.getBasePositionAndOrientation(body, client)
            return position, quaternion, bullet.getBaseVelocity(body, client)[0]
        state = bullet.getLinkState(body, root, 1, 0, client)
        (vx, _, vz), spin = state[6], state[7]
        # Of a link the original takes the turn about z for the speed along y. It is zero in the planar robots, but
        # for rounding, and the observations here are the original's.
        return state[0], state[1], (vx, spin[2], vz)

    def _feel_ground(self) -> None:
        """Note which feet touch the ground; the next observation shows it."""
        points = self._bullet.getContactPoints(self._body, self._ground, _ANY_LINK, _ANY_LINK, self._client)
        touching = set(map(_link_of_a, points))
        for index, foot in enumerate(self._feet):
            self._contact[index] = 1.0 if foot in touching else 0.0


@functools.cache
def _centres(bullet: Any, original: Any) -> dict[str, int]:
    """Return parts whose centres, so weighted, sum to those of all parts of a robot of this class.

    The weights are tried on a moving robot, once per process; should its model have changed, all parts are taken.
    """
    world = _new_world(bullet, original)
    world.reset(seed=0)
    parts = {name: part for name, part in world.robot.parts.items() if name != "floor"}
    weights = _WEIGHTS[type(world.robot).__name__]
    rng = np.random.default_rng(0)
    for _ in range(20):
        world.step(rng.uniform(-1, 1, world.action_space.shape))
        whole = sum(part.current_position()[:2] for part in parts.values())
        few = sum(weight * parts[name].current_position()[:2] for name, weight in weights.items() if name in parts)
        if not np.allclose(whole, few, rtol=0, atol=1e-12):
            weights = dict.fromkeys(parts, 1)
            break
    world.close()
    return weights


def _new_world(bullet: Any, original: Any) -> Any:
    """Return a world of this class with a physics client of its own, set up as the original does at its first reset.

    Left to itself, the original would first look for a physics server in shared memory, which two environments would
    then share, and make Bullet print to stdout.
    """
    clients: Any = importlib.import_module("pybullet_utils.bullet_client")
    client = clients.BulletClient.__new__(clients.BulletClient)
    client._shapes, client._pid, client._client = {}, os.getpid(), bullet.connect(bullet.DIRECT)
    client.resetSimulation()
    client.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
    world = original(render_mode="rgb_array")
    world._p, world.physicsClientId, world.ownsPhysicsClient = client, client._client, True
    # It moves the camera of a window, which there is none of, and fails once the process's first client is closed.
    world.camera_adjust = lambda: None
    return world


def _import_bullet() -> tuple[Any, Any]:
    """Return PyBullet and the original environments."""
    try:
        with _without_chatter():
            bullet = importlib.import_module("pybullet")
        return bullet, importlib.import_module("pybullet_envs_gymnasium.gym_locomotion_envs")
    except ImportError as error:
        raise ImportError(
            f"the PyBullet environments need packages that do not load here ({error}); "
            "run pip install 'adept-rl[pybullet]' (Python 3.11)"
        ) from error


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Drop the line that PyBullet writes to stderr, from C, when imported; let through whatever else comes."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            caught.seek(0)
            for line in caught.read().decode(errors="replace").splitlines():
                if not line.startswith("pybullet build time:"):
                    print(line, file=sys.stderr)
