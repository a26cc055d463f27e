"""What every integration shares: how it checks its framework, scales an optimiser's steps, and calls the engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from adept.engine import PREFIX, Engine
from adept.extras import MissingExtra, require
from adept.hindsight.advice import Advice
from adept.hindsight.evaluation import CriticRows, Rows
from adept.hindsight.weights import ModuleWeights, Weights
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


def refuse_second(host: Any, name: str) -> None:
    """Refuse a host that something was attached to before."""
    if hasattr(host, PREFIX):
        raise ValueError(f"this {name} has a scheduler already, one is allowed; build a new {name}")


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
        self._optimizer, self._critic_params = optimizer, tuple(critic_params)
        self._scheduled: list[tuple[Any, Any]] = []
        """groups of parameters with their scheduled rates, within a step"""
        self._lengthened: list[tuple[Any, Any, float]] = []
        """the critic's parameters, copies of them from before the step, and the factor on their step"""
        self._hooks = [optimizer.register_step_pre_hook(self._before), optimizer.register_step_post_hook(self._after)]

    def _before(self, *_: Any) -> None:
        self._put_back()  # a step that broke off
        settings, self._lengthened = self.settings, []
        if self._critic_params and (scheduled := learning_rate(self._optimizer)) > 0:
            factor = settings.critic_rate(scheduled) / (scheduled * settings.lr_scale)
            if factor != 1.0:
                self._lengthened = [(each, each.detach().clone(), factor) for each in self._critic_params]
        if settings.lr_scale != 1.0:
            self._scheduled = [(group, group["lr"]) for group in self._optimizer.param_groups]
            for group, rate in self._scheduled:
                group["lr"] = rate * settings.lr_scale

    def _after(self, *_: Any) -> None:
        self.count += 1
        self._put_back()
        for parameter, before, factor in self._lengthened:
            parameter.data.sub_(before).mul_(factor).add_(before)
        self._lengthened = []

    def _put_back(self) -> None:
        for group, rate in self._scheduled:
            group["lr"] = rate
        self._scheduled = []

    def remove(self) -> None:
        """Leave the optimiser alone from now on."""
        self._put_back()
        for hook in self._hooks:
            hook.remove()


class Adapter:
    """What stands between a host and the engine: it begins an update, takes note of its epochs, and finishes it.

    A subclass hooks the calls of its host, and gives it the numbers for its log and the state for its checkpoint.

    Args:
        engine: evaluates updates and sets them.
        verbose: 0 does not print the advice.
        weights: the parameters that are evaluated; None: they come later.
        critic_params: those among them that only the critic has.
    """

    def __init__(
        self, engine: Engine, verbose: int, weights: Weights | None = None, critic_params: Sequence[Any] = ()
    ) -> None:
        self.engine, self._verbose = engine, verbose
        self._weights: Any = weights
        self._has_own_critic = bool(critic_params)
        self._guarded: Rows | None = None
        """the rows by which the rule's guard ends the update, where it has one"""

    def begin(self, rows: Callable[[], Rows | None], reward: Callable[[], float | None], **known: Any) -> Settings:
        """Evaluate the last update on the rollout at hand, and set the next one."""
        engine = self.engine
        built = engine.rollout(rows)
        settings = engine.begin(built, reward=reward() if engine.rule.needs_reward else None, **known)
        self._guarded = None if engine.rule.kl_stop is None else built
        return settings

    def epoch_ended(self, epoch: int) -> bool:
        """Take note that an epoch ended; return whether the rule's guard ends the update with it."""
        self.engine.mark(epoch)
        if self._guarded is None or epoch >= self.engine.settings.epochs:
            return False
        return self.engine.stops(self.present(self._guarded.divergence))

    def finish(self, epochs_done: float) -> dict[str, float]:
        """Take note of the epochs that were done; return the numbers for the host's log."""
        self._guarded = None
        self.engine.finished(epochs_done)
        return self.engine.metrics()

    def critic_rows(self, values: Callable[[], Any], returns: Any, now: Any = None) -> CriticRows | None:
        """Return the rows as a critic with parameters of its own sees them; its present values may be known."""
        if not self._has_own_critic:
            return None
        now = self.present(values) if now is None else now
        return CriticRows(values, now, returns - now)

    def present(self, passes: Callable[[], Any]) -> Any:
        """Return what passes through the present parameters find, without leaving a trace."""
        with self._weights.current():
            return passes()

    def advice(self) -> Advice:
        """Return what the updates so far say of the host's epochs and learning rate."""
        return self.engine.advice()

    def print_advice(self) -> None:
        """Print the advice, unless told not to."""
        if self._verbose and self.engine.monitor:
            print(f"adept: {self.advice()}")


def own_parameters(module: Any, other: Any) -> list[Any]:
    """Return the parameters of a PyTorch module that another one does not have."""
    shared = set(map(id, other.parameters()))
    return [parameter for parameter in module.parameters() if id(parameter) not in shared]


def actor_and_critic(actor: Any, critic: Any | None) -> tuple[ModuleWeights, list[Any]]:
    """Return the parameters to evaluate, and those that only the critic has; without any it is left out."""
    from torch.nn import ModuleList

    own = [] if critic is None else own_parameters(critic, actor)
    return ModuleWeights(ModuleList([actor, critic] if critic is not None and own else [actor])), own


def learning_rate(optimizer: Any) -> float:
    """Return the largest learning rate of a PyTorch optimiser's groups."""
    return max(float(group["lr"]) for group in optimizer.param_groups)


def mean(values: Iterable[float]) -> float | None:
    """Return the mean of the returns of episodes; None where none ended."""
    known = [float(value) for value in values]
    return sum(known) / len(known) if known else None


@contextmanager
def replaced(part: Any, **attributes: Any) -> Iterator[None]:
    """Set attributes of a part of the host for a while; afterwards they are as before, also after an error."""
    own = {name: vars(part)[name] for name in attributes if name in vars(part)}
    vars(part).update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            vars(part).pop(name, None)
        vars(part).update(own)


@contextmanager
def held_steps(schedule: Any) -> Iterator[list[tuple[Any, ...]]]:
    """Keep a learning-rate schedule that counts epochs, or steps within them, from counting the chosen ones.

    The steps that the host makes of it meanwhile are not made; their arguments are yielded. It is then for the
    integration to make as many as the configured number of epochs would have asked for.
    """
    asked: list[tuple[Any, ...]] = []
    with replaced(schedule, step=lambda *args: asked.append(args)):
        yield asked


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which is all that the bounds here speak of."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in leading.group().split(".")) if leading else ()
