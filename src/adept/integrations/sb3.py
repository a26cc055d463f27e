"""ADEPT in Stable-Baselines3, sb3-contrib and sbx: a callback that evaluates updates and, if told, sets the next one.

How an epoch's end is seen: `rollout_buffer.get` is called once per epoch, so that a call ends the epoch before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from adept.engine import MAX_ROWS, PREFIX, Engine
from adept.hindsight.evaluation import GAINS_EVERY
from adept.hindsight.weights import ModuleWeights, Weights
from adept.integrations import contract
from adept.rules import Rule

contract.require_framework("stable_baselines3", package="stable-baselines3", at_least="2.4", below="3", extra="sb3")

from stable_baselines3.common.base_class import BaseAlgorithm  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402

from adept.integrations.sb3_rows import critic_parameters, rows_of  # noqa: E402

STATE = "adept_state"
"""The attribute of the model that carries the state through `model.save` and `load`."""


def mean_return(model: Any) -> float:
    """Return the mean GAE return of the rollout at hand, in the environment's own units of reward.

    `VecNormalize` divides rewards by a running scale; the mean is multiplied by its present value, so that
    rollouts of different ages compare.
    """
    mean = float(model.rollout_buffer.returns.mean(dtype="float64"))
    normalize = model.get_vec_normalize_env()
    if normalize is not None and normalize.norm_reward:
        mean *= math.sqrt(float(normalize.ret_rms.var) + normalize.epsilon)
    return mean


class AdeptCallback(contract.Adapter, BaseCallback):
    """Evaluate every update on the next rollout, and set epochs and learning rate of the next one if asked to.

    `AdeptCallback()` changes nothing and prints advice at the end. `AdeptCallback("hindsight")` sets epochs and a
    factor on the learning rate; `AdeptCallback("ucb")` or another bandit sets the epochs. Works with PPO, MaskablePPO,
    RecurrentPPO and the PPO of sbx; not as the child of another callback, and control of sbx not with `target_kl`. The
    state is saved with the model; `del model.adept_state` resets it. Outside of updates the model has its own
    `n_epochs`, `lr_schedule` and `target_kl`. docs/integrations.md lists what is logged; as with SB3's own `train/…`,
    numbers of the last update of a `learn` are recorded but not dumped. RecurrentPPO is evaluated on whole rollouts.
    Between the end of a rollout and the update the model has two attributes more, which `model.save` leaves out.

    Several calls of `learn` with one callback and one model are one run. With another model another run begins: advice
    is of that one alone, and a rule given as data starts afresh, or from the state that the model carries. A rule
    given as an object serves one model.

    Args:
        scheduler: `None` for advice alone; the name of a rule (`"hindsight"` or `"kl-rate"`) or
            bandit (`"ucb"`, …), a list of arms, a mapping with `name` and options, or an object.
        reward: function from the model to the reward of a bandit; `None` credits no arm.
        verbose: 0 does not print the advice.
        monitor: evaluate updates.
        gains_every: updates between two that are evaluated epoch by epoch; 0 means never.
        rows: most rows of a rollout that are evaluated.
    """

    def __init__(
        self,
        scheduler: Any = None,
        reward: Callable[[Any], float | None] = mean_return,
        verbose: int = 1,
        *,
        monitor: bool = True,
        gains_every: int = GAINS_EVERY,
        rows: int = MAX_ROWS,
    ) -> None:
        self._make_engine = partial(Engine, scheduler, monitor=monitor, gains_every=gains_every, rows=rows, host="sb3")
        contract.Adapter.__init__(self, self._make_engine(), verbose)
        BaseCallback.__init__(self, verbose)
        self._reward = reward
        self._trained: Any = None
        """the model of the last `learn`"""
        self._made: Any = None
        """numbers of that model after its last update"""
        self._around = ExitStack()
        """what is different about the model between the end of a rollout and the update"""
        self._open = self._waits = False
        """whether a `learn` goes on, and an update was chosen that has not begun"""
        self._kept: tuple[Any, Any] = (None, None)
        """who chooses, and the state on the model that it is in"""
        self._carried_out = True
        """whether the last choice led to an update, so that a bandit may be credited for it"""

    @property
    def rule(self) -> Rule | None:
        """The rule that sets updates."""
        return self.engine.rule if self.engine.controls else None

    def _init_callback(self) -> None:
        _check_algorithm(self.model, self.engine.controls)

    def _on_training_start(self) -> None:
        if self.parent is not None:
            raise ValueError(
                f"AdeptCallback came as the child of {type(self.parent).__name__}, which hides rollouts from it; it "
                "works alone or in a list: pass model.learn(callback=[AdeptCallback(), other])"
            )
        model: Any = self.model
        state, goes_on = getattr(model, STATE, None), self._trained is model
        if self._trained is not None and not goes_on:
            if self.engine.is_object and self.engine.updates and not state:
                raise ValueError(
                    f"{self.rule!r} has chosen for another model, and would be credited with this one's return; an "
                    "object serves one model: build a new one for each model, or give it as data, such as 'ucb'"
                )
            self.engine = self._make_engine()
        elif not goes_on or not self._was_last():
            self.engine.forget()
        self._carried_out = not (goes_on and self._waits)
        left_behind = getattr(vars(model).get("train"), "__self__", None)
        if isinstance(left_behind, AdeptCallback):  # by a `learn` that was interrupted just before an update
            left_behind._around.close()
        self._trained, self._made, self._waits, self._open = model, _marks(model), False, True
        self._attach(model.n_epochs, float(model.lr_schedule(1.0)))
        normalize = model.get_vec_normalize_env()
        self.engine.rewards_scaled = normalize is not None and normalize.norm_reward
        rule, kept = self._kept
        if state and self.engine.controls and not (self.engine.rule is rule and state is kept):
            self.engine.load_state_dict(state, forget=f"`del model.{STATE}`")
            self._kept = self.engine.rule, state

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        if not self._was_last():
            self.engine.forget()  # parameters were loaded during the training, which is no update
        self._attach(self.engine.epochs if self.engine.controls else model.n_epochs)
        self.begin(
            lambda: rows_of(model, self.engine),
            lambda: self._reward(model) if self._carried_out else None,
            learning_rate=float(model.lr_schedule(1 - model.num_timesteps / model._total_timesteps)),  # as in `train`
            score=contract.mean(episode["r"] for episode in model.ep_info_buffer or ()),
        )
        if hasattr(model.policy, "optimizer") and not contract.acts_otherwise(model.policy):
            # SB3's KL stop keeps the rule's guard. sbx has none. Where a policy acts otherwise than it trains (dropout,
            # batch normalisation), that of SB3 compares the two, and would end updates that did not move.
            self._guarded = None
        self._carried_out = True
        if self.engine.controls:
            self._kept = self.engine.rule, self.engine.state_dict()
            setattr(model, STATE, self._kept[1])
        for name, value in self.engine.metrics().items():
            self.logger.record(name, value)
        self._waits = True
        instead = {"train": self._train, "_excluded_save_params": self._excluded}
        self._around.enter_context(contract.replaced(model, **instead))

    def _on_training_end(self) -> None:
        if self._open:  # rl-zoo ends a training twice
            self.print_advice()
        self._open = False

    def _attach(self, epochs: int, learning_rate: float | None = None) -> None:
        """Tell the engine the model's own epochs, and its parameters, which another callback may have exchanged."""
        self._weights = _weights(self.model)
        self.engine.attach(epochs, self._weights, learning_rate)

    def _was_last(self) -> bool:
        """Say whether the model's parameters are as the last update here left them, so that it can be evaluated."""
        return bool(_marks(self.model) == self._made)

    def _excluded(self) -> list[str]:
        return [*type(self.model)._excluded_save_params(self.model), "train", "_excluded_save_params"]

    def _train(self) -> None:
        """Update the model with what was chosen, and take note of what was done."""
        self._around.close()
        self._waits = False
        model: Any = self.model
        buffer = model.rollout_buffer
        optimizer = getattr(model.policy, "optimizer", None)
        self._own_get: Callable[..., Any] = buffer.get
        self._lr_scale: contract.LRScale | None = None
        self._epochs, self._stepped, self._over = 0, 0, False
        with ExitStack() as stack:
            if hasattr(optimizer, "register_step_post_hook"):
                self._lr_scale = contract.LRScale(optimizer, critic_params=critic_parameters(model.policy))
                stack.callback(self._lr_scale.remove)
            stack.enter_context(contract.replaced(buffer, get=self._get))
            chosen = self._chosen()
            own = {name: getattr(model, name) for name in chosen}
            try:
                vars(model).update(chosen)
                model.train()
            finally:
                # What a subclass sets in its `train` stays.
                vars(model).update({name: own[name] for name, value in chosen.items() if getattr(model, name) is value})
        self._made = _marks(model)
        done = float(self._epochs)
        if self._lr_scale is not None:
            rows = buffer.buffer_size * buffer.n_envs
            done = self._lr_scale.count / math.ceil(rows / (model.batch_size or rows))
        numbers = self.finish(done)
        for name in ("epochs", "epochs_done"):
            model.logger.record(f"{PREFIX}/{name}", numbers[f"{PREFIX}/{name}"])

    def _chosen(self) -> dict[str, Any]:
        """Return the settings of the model for this update, and set the scale."""
        model: Any = self.model
        engine = self.engine
        if not engine.controls:
            return {}
        chosen: dict[str, Any] = {"n_epochs": engine.settings.epochs}
        if self._lr_scale is None:  # sbx, whose optimisers are not objects with steps
            scheduled, lr_scale = model.lr_schedule, engine.settings.lr_scale
            return {**chosen, "lr_schedule": lambda remaining: scheduled(remaining) * lr_scale}
        self._lr_scale.settings = engine.settings
        kl_stop = engine.rule.kl_stop
        if kl_stop is not None and self._guarded is None:
            # SB3 stops at 1.5 times its target.
            chosen["target_kl"] = min(kl_stop / 1.5, math.inf if model.target_kl is None else model.target_kl)
        return chosen

    def _get(self, *args: Any, **kwargs: Any) -> Any:
        """Yield the minibatches of an epoch as usual; the epoch before it is over."""
        steps = self._epochs if self._lr_scale is None else self._lr_scale.count
        ended = steps > self._stepped  # a call without steps since the last one was not for an epoch
        if ended:
            self._stepped = steps
            self._over = self.epoch_ended(self._epochs) or self._over
        if self._over:
            return iter(())
        if ended or not self._epochs:
            self._epochs += 1
        return self._own_get(*args, **kwargs)


def _marks(model: Any) -> tuple[int, list[int]]:
    """Return numbers that change with every update, and with parameters that are loaded into the model."""
    return model._n_updates, [parameter._version for parameter in model.policy.parameters()]


def _weights(model: Any) -> Weights:
    if hasattr(model.policy, "actor_state"):
        from adept.integrations.sbx import ActorWeights

        return ActorWeights(model.policy)
    return ModuleWeights(model.policy)


def _check_algorithm(model: BaseAlgorithm, controls: bool) -> None:
    """Refuse what has no epochs, and what would let their number change the learning rate."""
    if not (hasattr(model, "n_epochs") and hasattr(model, "rollout_buffer")):
        raise ValueError(
            f"{type(model).__name__} has no update epochs to choose; AdeptCallback works with on-policy algorithms "
            "that have n_epochs: PPO, MaskablePPO, RecurrentPPO, sbx.PPO; train one of these, or leave the callback out"
        )
    if controls and hasattr(model, "adaptive_lr"):
        raise ValueError(
            "this sbx model has a target_kl, which adapts the learning rate after every minibatch, so that the number "
            "of epochs would change the learning rate; AdeptCallback chooses with target_kl=None: build the model so, "
            "or use AdeptCallback() for advice"
        )
