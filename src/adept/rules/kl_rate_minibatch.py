"""Learning rate by KL at every minibatch: the rule of rsl_rl, as it has it."""

from __future__ import annotations

from typing import Any, SupportsFloat

from adept.rules.minibatch import MinibatchRate
from adept.schedulers.validation import real_number

FACTOR, BAND = 1.5, 2.0
MIN_RATE, MAX_RATE = 1e-5, 1e-2


class KLRateMinibatch(MinibatchRate):
    """Divide the learning rate by 1.5 above twice a target KL, multiply it by 1.5 below half the target.

    Before the gradient step of each minibatch, whose KL to the policy of the rollout is d:
    α ← max(α/1.5, 1e-5) if d > 2·target, α ← min(1.5·α, 1e-2) if d < target/2.

    Source: rsl_rl, `desired_kl` with the schedule "adaptive". There d is the closed form between two Gaussians; here it
    is its estimate from the actions taken, mean (ρ - 1) - ln ρ, which exists for every policy. rsl_rl asks for 0 < d,
    too, and adds 1e-5 inside the logarithm of d, so that the first minibatch of an update, with d = 0, raises the rate.
    Here any d below target/2 does, as rounding would otherwise decide.

    Args:
        epochs: epochs of every update.
        target: the KL aimed at.
        seed: not used.
    """

    def __init__(self, epochs: int, *, target: float = 0.01, seed: int = 0) -> None:
        super().__init__(epochs, seed=seed)
        self.target = real_number("target", target, above=0, example=0.01)

    def _rate(self, rate: float, kl: SupportsFloat, gradient: Any, direction: Any) -> float:
        distance = float(kl)
        if distance > BAND * self.target:
            return max(rate / FACTOR, MIN_RATE)
        if distance < self.target / BAND:
            return min(rate * FACTOR, MAX_RATE)
        return rate
