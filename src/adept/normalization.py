"""Running normalisation of observations and rewards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from adept.envs.base import Array

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
CLIP = 10.0
EPSILON = 1e-8


class RunningMoments:
    """The mean and variance of all rows seen, in float64 (Chan's formula for merging two sets)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0.0
        self.mean: Numbers = np.zeros(shape)
        self.squares: Numbers = np.zeros(shape)
        """Sum of squared distances from the mean."""

    def update(self, rows: Array) -> None:
        """Take note of rows, the first axis counting them."""
        if len(rows) == 1:  # one environment: the common case of robots, without the detour over a batch
            self.count += 1.0
            distance = rows[0] - self.mean
            self.mean += distance / self.count
            self.squares += distance * (rows[0] - self.mean)
            return
        count, mean = float(len(rows)), rows.mean(0, dtype=np.float64)
        distance = mean - self.mean
        total = self.count + count
        self.squares += ((rows - mean) ** 2).sum(0) + distance**2 * (self.count * count / total)
        self.mean += distance * (count / total)
        self.count = total

    @property
    def variance(self) -> Numbers:
        """The variance; 1 before the second row."""
        return self.squares / self.count if self.count > 1 else np.ones_like(self.squares)

    def state(self) -> dict[str, Array]:
        """Return the moments as arrays."""
        return {"count": np.array(self.count), "mean": self.mean, "squares": self.squares}

    def load(self, state: dict[str, Array]) -> None:
        """Continue from saved moments."""
        self.count = float(state["count"])
        self.mean, self.squares = state["mean"].astype(np.float64), state["squares"].astype(np.float64)


class ObservationNormalizer(RunningMoments):
    """Shift and scale observations to mean 0 and deviation 1, clipped to ±10, by all those seen so far."""

    def __call__(self, observations: Array) -> Numbers:
        """Return normalised observations, in float64."""
        scaled: Numbers = observations - self.mean
        scaled /= np.sqrt(self.variance + EPSILON)
        np.maximum(scaled, -CLIP, out=scaled)
        return np.minimum(scaled, CLIP, out=scaled)


class RewardNormalizer(RunningMoments):
    """Divide rewards by the running deviation of the discounted return, clipped to ±10.

    The reward of step t is divided by the deviation over all returns up to and including t, as in the reference
    wrappers; since acting does not need it, a whole rollout is done at once.
    """

    def __init__(self, environments: int, discount: float) -> None:
        super().__init__(())
        self.discount = discount
        self.returns: Numbers = np.zeros(environments)

    def __call__(self, rewards: Array, done: Array) -> Floats:
        """Normalise the rewards (steps, environments) of a rollout, and take note of them."""
        steps, count = rewards.shape
        returns = np.empty((steps, count))
        current = self.returns
        for step in range(steps):
            current = current * self.discount + rewards[step]
            returns[step] = current
            current = np.where(done[step], 0.0, current)
        self.returns = current
        # Moments after each step, from cumulated sums about a shift near the data, which keeps them accurate.
        shift = self.mean if self.count else returns.mean()
        sums = np.cumsum((returns - shift).sum(1)) + self.count * (self.mean - shift)
        squares = np.cumsum(((returns - shift) ** 2).sum(1))
        squares += self.squares + self.count * (self.mean - shift) ** 2
        counts = self.count + count * np.arange(1.0, steps + 1)
        about_mean = np.maximum(squares - sums**2 / counts, 0.0)
        variances = np.where(counts > 1, about_mean / counts, 1.0)
        self.count, self.mean = float(counts[-1]), np.asarray(shift + sums[-1] / counts[-1])
        self.squares = np.asarray(about_mean[-1])
        scaled = rewards / np.sqrt(variances + EPSILON)[:, None]
        return np.clip(scaled, -CLIP, CLIP).astype(np.float32)

    def restart(self) -> None:
        """Forget the returns of the episodes under way, which a restart of the environments ends."""
        self.returns = np.zeros_like(self.returns)

    def state(self) -> dict[str, Array]:
        """Return the moments and the returns under way."""
        return {**super().state(), "returns": self.returns}

    def load(self, state: dict[str, Array]) -> None:
        """Continue from a saved state."""
        super().load(state)
        self.returns = state["returns"].astype(np.float64)
