"""What every integration shares: how it checks its framework, and how it scales an optimiser's steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from adept.engine import Engine
from adept.extras import MissingExtra, require
from adept.hindsight.evaluation import Rows
from adept.hindsight.weights import ModuleWeights
from adept.rules import Settings


def require_framework(module: str, *, package: str, at_least: str, below: str, extra: str) -> None:
    """Refuse a framework that is missing, or of a version that this integration was not written for."""
    try:
        require(module, extra)
    except MissingExtra:
        raise
    except ImportError as error:  # for example Ray without what its RLlib needs
        raise ImportError(
            f"{package} is installed, but {module} cannot be imported ({error}): pip install 'adept-rl[{extra}]'"
        ) from error
    installed = metadata.version(package)
    if not _release(at_least) <= _release(installed) < _release(below):
        raise ImportError(
            f"{package} {installed} is installed; adept.integrations.{extra} works with {package}>={at_least},<{below}"
            f": pip install 'adept-rl[{extra}]'"
        )


def acts_otherwise(policy: Any) -> bool:
    """Say whether a module acts otherwise than it trains: it has dropout or batch normalisation."""
    from torch.nn.modules import batchnorm, dropout

    return any(isinstance(part, dropout._DropoutNd | batchnorm._NormBase) for part in policy.modules())


class LRScale:
    """Multiply the learning rate of a PyTorch optimiser while it steps, whatever schedule sets it.

    Before a step every group's rate is multiplied, after it the scheduled rate is put back, bit for bit. So schedules,
    checkpoints and logs of the host see the scheduled rate alone, and nothing is left when the hooks are gone.
    The critic's parameters may move further: their step is lengthened after it was made, which is the same as a
    larger rate where steps are proportional to it, as Adam's are.
    """

    def __init__(self, optimizer: Any, *, critic_params: Sequence[Any] = ()) -> None:
        self.settings = Settings(1)
        self.count = 0
        """steps that the optimiser made"""
        self._scheduled: list[Any] = []
        self._critic_params = tuple(critic_params)
        self._lengthened: list[tuple[Any, Any]] = []
        """the critic's parameters before the step, where it is lengthened"""
        self._optimizer = optimizer
        self._hooks = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def _before(self, *_: Any) -> None:
        self._put_back()  # a step that broke off
        self._lengthened = []
        if self._critic_params and self._critic_factor() != 1.0:
            self._lengthened = [(parameter, parameter.detach().clone()) for parameter in self._critic_params]
        if self.factor != 1.0:
            self._scheduled = [group["lr"] for group in self._optimizer.param_groups]
            for group in self._optimizer.param_groups:
                group["lr"] = group["lr"] * self.factor

    def _critic_factor(self) -> float:
        """Return how many times as far as the others the critic's parameters move."""
        scheduled = learning_rate(self._optimizer)
        return self.settings.critic_rate(scheduled) / (scheduled * self.factor) if scheduled > 0 else 1.0

    def _after(self, *_: Any) -> None:
        self.count += 1
        self._put_back()
        if self._lengthened:
            longer = self._critic_factor()
            for parameter, before in self._lengthened:
                parameter.data.sub_(before).mul_(longer).add_(before)
            self._lengthened = []

    def _put_back(self) -> None:
        for group, scheduled in zip(self._optimizer.param_groups, self._scheduled, strict=False):
            group["lr"] = scheduled
        self._scheduled = []

    @property
    def factor(self) -> float:
        """What the learning rate is multiplied by."""
        return self.settings.lr_scale

    @factor.setter
    def factor(self, lr_scale: float) -> None:
        self.settings = Settings(1, lr_scale)

    def remove(self) -> None:
        """Leave the optimiser alone from now on."""
        self._put_back()
        for hook in self._hooks:
            hook.remove()


def own_parameters(module: Any, *others: Any) -> list[Any]:
    """Return the parameters of a PyTorch module that none of the others has."""
    shared = {id(parameter) for other in others for parameter in other.parameters()}
    return [parameter for parameter in module.parameters() if id(parameter) not in shared]


def learning_rate(optimizer: Any) -> float:
    """Return the largest learning rate of a PyTorch optimiser's groups."""
    return max(float(group["lr"]) for group in optimizer.param_groups)


def mean(values: Iterable[float]) -> float | None:
    """Return the mean of the returns of episodes; None where none ended."""
    known = [float(value) for value in values]
    return sum(known) / len(known) if known else None


def stops(engine: Engine, weights: ModuleWeights, rows: Rows) -> bool:
    """Say whether the rule's guard ends the update at the policy at hand, which is asked without leaving a trace."""
    with weights.current():
        return engine.stops(rows.divergence())


@contextmanager
def held_steps(learning_rate: Any) -> Iterator[list[tuple[Any, ...]]]:
    """Keep a learning-rate schedule that counts epochs, or steps within them, from counting the chosen ones.

    The steps that the host makes of it meanwhile are not made; their arguments are yielded. It is then for the
    integration to make as many as the configured number of epochs would have asked for.
    """
    asked: list[tuple[Any, ...]] = []
    own = vars(learning_rate).get("step")
    learning_rate.step = lambda *args: asked.append(args)
    try:
        yield asked
    finally:
        del learning_rate.step
        if own is not None:
            learning_rate.step = own


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which is all that the bounds here speak of."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in leading.group().split(".")) if leading else ()
