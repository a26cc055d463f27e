"""Algorithms: each is a loss over a minibatch; `Learner` turns it into updates. A new one is one line here."""

from __future__ import annotations

from collections.abc import Callable

from adept.algorithms import ppo
from adept.algorithms.learner import Loss
from adept.config import Config

ALGORITHMS: dict[str, Callable[[Config], Loss]] = {"ppo": ppo.make_loss}
