"""Hypergradient Adam: the learning rate follows the gradient of the loss with respect to the learning rate."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

from adept.names import unknown_name
from adept.rules.minibatch import MinibatchRate
from adept.schedulers.validation import real_number

MIN_RATE, MAX_RATE = 1e-8, 0.1
FORMS = ("multiplicative", "additive")


class Hypergradient(MinibatchRate):
    """Raise the learning rate while a gradient still points along the last step, lower it once it points back.

    With g the gradient of a minibatch, clipped, and u = -m̂/(√v̂ + ε) Adam's direction of the step before,
    ∂ loss/∂α = ⟨g, u⟩ is the hypergradient. Before each gradient step

        multiplicative: α ← α·(1 - beta·⟨g, u⟩/(‖g‖·‖u‖)),
        additive:       α ← α - beta·⟨g, u⟩.

    Source: Baydin et al. 2018, "Online Learning Rate Adaptation with Hypergradient Descent", Adam-HD: the additive form
    with beta 1e-8 to 1e-7. That beta has the unit of a learning rate over a gradient, so that a value fits one
    starting rate and one loss. The multiplicative form (Martínez-Rubio 2017, on the same method) divides by both
    lengths, and is the default: one beta serves every start.
    Deviation: rates stay within [1e-8, 0.1]; the sources have no bounds, and the additive form passes 0.

    Args:
        epochs: epochs of every update.
        beta: the learning rate of the learning rate.
        form: "multiplicative" or "additive".
        seed: not used.
    """

    def __init__(self, epochs: int, *, beta: float = 0.02, form: str = "multiplicative", seed: int = 0) -> None:
        super().__init__(epochs, seed=seed)
        self.beta = real_number("beta", beta, above=0, at_most=0.5, example=0.02)
        if form not in FORMS:
            raise unknown_name("form", form, FORMS)
        self.form = form

    def _rate(self, rate: float, kl: SupportsFloat, gradient: Any, direction: Any) -> float:
        if direction is None:
            return rate
        slope = float(gradient @ direction)
        if self.form == "multiplicative":
            lengths = math.sqrt(float(gradient @ gradient) * float(direction @ direction))
            slope = rate * slope / lengths if lengths > 0 else 0.0
        adapted = rate - self.beta * slope
        return min(max(adapted, MIN_RATE), MAX_RATE) if math.isfinite(adapted) else rate
