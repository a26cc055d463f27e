"""ADEPT in Tianshou: `attach(algorithm)` evaluates every PPO update, `attach(algorithm, "hindsight")` also chooses.

How an epoch's end is seen: the batch is split once per epoch, so that a call of `split` ends the epoch before it. A
split after which the policy's optimiser made no step, as that for GAIL's discriminator, began no epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from functools import cache, partial
from typing import Any

from adept.engine import PREFIX, Engine
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import Rows, explained_variance
from adept.integrations import contract

contract.require_framework("tianshou", package="tianshou", at_least="2.0", below="2.1", extra="tianshou")

import torch  # noqa: E402
from tianshou.algorithm import PPO  # noqa: E402
from tianshou.algorithm.modelfree.a2c import A2CTrainingStats  # noqa: E402


def attach(algorithm: PPO, scheduler: Any = None, *, verbose: int = 1, **options: Any) -> PPO:
    """Evaluate the updates of this PPO on the next rollout, and set them if asked to; return the algorithm.

    docs/integrations.md lists what `scheduler` and `options` may be.

    `algorithm.adept.advice()` returns the advice; `run_training` prints it at its end unless `verbose=0`.
    `update_step_num_repetitions` of the trainer is what a rule, or a bandit without arms, starts from. The reward of
    bandits is the mean of `batch.returns`, with `return_scaling` undone. The state is part of
    `algorithm.state_dict()`; the trainer's logger gets `update/adept/…`. Call it once, before loading a checkpoint. An
    algorithm without ADEPT loads a checkpoint made with a rule or bandit after `del state["adept._extra_state"]`.

    Inside a wrapper such as ICM attach to the wrapped algorithm; its numbers are then not logged. Returns and
    advantages of GAIL are those of its discriminator.
    """
    if not isinstance(algorithm, PPO):
        raise ValueError(
            f"got {type(algorithm).__name__}, whose updates are not made to be repeated; only PPO's are: build a "
            "tianshou.algorithm.PPO (inside a wrapper algorithm, attach to the wrapped one)"
        )
    contract.refuse_second(algorithm, "algorithm")
    attached = _Attached(algorithm, Engine(scheduler, host="tianshou", **options), verbose)
    if attached.engine.controls:
        algorithm.adept = attached
    else:
        object.__setattr__(algorithm, PREFIX, attached)  # no submodule: checkpoints are PPO's own
    algorithm.register_load_state_dict_pre_hook(attached.before_load)
    algorithm._preprocess_batch = attached.preprocess_batch
    algorithm._update_with_batch = attached.update_with_batch
    algorithm.run_training = attached.run_training
    return algorithm


@cache
def _with_numbers(kind: type) -> type:
    """Return a class of training statistics with ADEPT's numbers, which Tianshou's loggers write as `adept/…`."""
    numbers: Any = (PREFIX, dict[str, float], field(default_factory=dict))

    def own(self: Any) -> dict[str, Any]:
        """Return the numbers that a wrapper's statistics take over and average, without the dictionary of ours."""
        found: dict[str, Any] = kind._get_self_dict(self)  # type: ignore[attr-defined]
        return {name: value for name, value in found.items() if name != PREFIX}

    names = {
        "_non_loss_fields": (*kind._non_loss_fields, PREFIX),  # type: ignore[attr-defined]
        "_get_self_dict": own,
    }
    return make_dataclass(f"Adept{kind.__name__}", [numbers], bases=(kind,), namespace=names, kw_only=True)


class _Attached(contract.Adapter, torch.nn.Module):
    """Stand between PPO and its two steps of an update; a submodule where it has a state to save with PPO's."""

    def __init__(self, algorithm: PPO, engine: Engine, verbose: int) -> None:
        torch.nn.Module.__init__(self)
        self._owner = (algorithm,)  # in a tuple, or PPO would become a submodule of its own submodule
        weights, own = contract.actor_and_critic(algorithm.policy, algorithm.critic)
        contract.Adapter.__init__(self, engine, verbose, weights, own)
        self._lr_scale = contract.LRScale(algorithm.optim._optim, critic_params=own)
        self._reward: float | None = None
        self._loaded: dict[str, Any] | None = None

    def preprocess_batch(self, batch: Any, buffer: Any, indices: Any) -> Any:
        """Compute returns as PPO does, and note their mean in the environment's units."""
        (algorithm,) = self._owner
        # Returns are divided by the scale of the batches before this one; computing them changes the scale.
        scale = math.sqrt(float(algorithm.ret_rms.var) + algorithm._eps) if algorithm.return_scaling else 1.0
        batch = type(algorithm)._preprocess_batch(algorithm, batch, buffer, indices)
        self._reward = float(batch.returns.double().mean()) * scale
        return batch

    def update_with_batch(self, batch: Any, batch_size: int | None, repeat: int) -> A2CTrainingStats:
        """Update as PPO does, with the choice for the number of repetitions and the factor of the learning rate."""
        (algorithm,) = self._owner
        rate = contract.learning_rate(algorithm.optim._optim)
        self.engine.attach(repeat, self._weights, rate)
        self._load()
        settings = self.begin(lambda: self._rows(batch), lambda: self._reward, learning_rate=rate)
        own = type(batch)
        monitored = self._monitored(own, batch)
        object.__setattr__(batch, "__class__", monitored)  # Batch itself would take the attribute for data
        try:
            with contract.replaced(self._lr_scale, settings=settings):
                stats = type(algorithm)._update_with_batch(
                    algorithm, batch, batch_size=batch_size, repeat=settings.epochs
                )
        finally:
            object.__setattr__(batch, "__class__", own)
            del monitored.split  # type: ignore[attr-defined]  # it holds the batch, and a class waits for the collector
        numbers = self.finish(stats.gradient_steps / max(1, len(batch) // (batch_size or len(batch))))
        shortened = {name.removeprefix(f"{PREFIX}/"): value for name, value in numbers.items()}
        own_numbers = {each.name: getattr(stats, each.name) for each in fields(stats)}
        kind: Any = type(stats)
        found: A2CTrainingStats = _with_numbers(kind)(**own_numbers, adept=shortened)
        return found

    def _rows(self, batch: Any) -> Rows:
        """Return the batch, which holds one environment after the other, each in order of time."""
        (algorithm,) = self._owner
        chosen = self.engine.choose_rows(len(batch))
        part = batch[chosen]

        def passed(module: Any, numbers: Callable[[Any], Any]) -> Any:
            module.eval()  # as it acts; the evaluation restores the mode
            minibatches = part.split(algorithm.max_batchsize, shuffle=False, merge_last=True)
            return torch.cat([numbers(each) for each in minibatches]).flatten()

        policy, critic = algorithm.policy, algorithm.critic
        log_probs = partial(passed, policy, lambda each: policy(each).dist.log_prob(each.act))
        # Tianshou computes log-probabilities and values in the mode of training; values in the units of the network.
        deployed = self.present(log_probs) if contract.acts_otherwise(policy) else part.logp_old.flatten()
        now = None if contract.acts_otherwise(critic) else part.v_s
        critic_rows = self.critic_rows(partial(passed, critic, lambda each: critic(each.obs)), part.returns, now)
        explained = explained_variance(batch.v_s, batch.returns)
        return Rows(log_probs, part.adv.flatten(), time_groups(len(batch), 1)[chosen], deployed, explained, critic_rows)

    def _monitored(self, kind: type, batch: Any) -> type:
        """Return the batch's class, except that this batch takes note of each epoch's end and keeps the guard."""
        lr_scale = self._lr_scale
        ended, before, stopped = 0, lr_scale.count, False

        def split(own: Any, size: int, shuffle: bool = True, merge_last: bool = False) -> Any:
            nonlocal ended, before, stopped
            if own is batch and shuffle:  # not a pass in order, which recomputes advantages
                if lr_scale.count > before:
                    ended, before = ended + 1, lr_scale.count
                    stopped = self.epoch_ended(ended)
                if stopped:
                    return iter(())
            return kind.split(own, size, shuffle=shuffle, merge_last=merge_last)  # type: ignore[attr-defined]

        return type(kind.__name__, (kind,), {"split": split})

    def run_training(self, params: Any) -> Any:
        """Train as usual, and print the advice at the end."""
        (algorithm,) = self._owner
        result = type(algorithm).run_training(algorithm, params)
        self.print_advice()
        return result

    def before_load(self, module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        """Forget the last update, which did not make the loaded parameters; be content with a state of another line."""
        self.engine.load_state_dict({}, forget="")
        entry = f"{prefix}{PREFIX}._extra_state"
        if self.engine.controls:
            state_dict.setdefault(entry, {})
        else:
            state_dict.pop(entry, None)

    def get_extra_state(self) -> dict[str, Any]:
        """Return what `algorithm.state_dict()` keeps."""
        return self.engine.state_dict() if self._loaded is None else self._loaded

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from what `algorithm.load_state_dict()` found; nothing leaves the rule as it is."""
        self._loaded = state or None
        if not self.engine.waits:
            self._load()

    def _load(self) -> None:
        """Load a state that was found before the trainer told how many repetitions it makes."""
        state, self._loaded = self._loaded, None
        if state is not None:
            self.engine.load_state_dict(state, forget="drop 'adept._extra_state' from the checkpoint")
