"""ADEPT in rsl_rl: `attach(runner)` evaluates every update, `attach(runner, "hindsight")` also chooses the next one.

How an epoch's end is seen: the storage yields as many minibatches per epoch as configured, and PPO asks for the next
one when the step of the last is done.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from adept.engine import Engine
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import Rows, explained_variance
from adept.integrations import contract

contract.require_framework("rsl_rl", package="rsl-rl-lib", at_least="5.5", below="5.6", extra="rsl_rl")

import torch  # noqa: E402
from rsl_rl.algorithms import PPO  # noqa: E402
from rsl_rl.runners import OnPolicyRunner  # noqa: E402

STATE = "adept_state"
"""The entry of the checkpoint with the state, and of `load_cfg` that says whether to load it."""


def attach(runner: OnPolicyRunner, scheduler: Any = None, *, verbose: int = 1, **options: Any) -> OnPolicyRunner:
    """Evaluate the updates of this runner on the next rollout, and set them if asked to; return the runner.

    docs/integrations.md lists what `scheduler` and `options` may be.

    `runner.adept.advice()` returns the advice; `runner.learn` prints it at its end unless `verbose=0`. A rule
    replaces rsl_rl's own KL rule (`schedule="adaptive"`): the learning rate is the configured one, or that of a loaded
    checkpoint, times the scale. With a bandit the KL rule stays. The reward of bandits is the mean of the storage's
    returns. The state is the entry `adept_state` of checkpoints, and
    `runner.load(path, load_cfg={…, "adept_state": False})` leaves it out; the runner's logger gets `adept/…`. Recurrent
    policies are evaluated on whole sequences, without their critic.

    Call it once, before `runner.load` and `runner.learn`.
    """
    algorithm = getattr(runner, "alg", None)
    if not isinstance(runner, OnPolicyRunner) or not isinstance(algorithm, PPO):
        raise ValueError(
            f"got {type(runner).__name__} with {type(algorithm).__name__}, which has no epochs of PPO to choose; an "
            "OnPolicyRunner of rsl_rl.runners with PPO is needed: build one"
        )
    contract.refuse_second(runner, "runner")
    engine = Engine(scheduler, host="rsl_rl", **options)
    if engine.controls and algorithm.is_multi_gpu:
        raise ValueError(
            "this run has several processes, and each would make its own choice; choices are made in runs of one "
            "process: start one, or attach without a scheduler for advice"
        )
    runner.adept = _Attached(runner, engine, verbose)
    return runner


class _Attached(contract.Adapter):
    """Stand between a runner and its algorithm, and between the algorithm and its storage."""

    def __init__(self, runner: OnPolicyRunner, engine: Engine, verbose: int) -> None:
        self.runner, algorithm = runner, runner.alg
        actor, critic = algorithm.get_policy(), algorithm._raw_critic
        recurrent = actor.is_recurrent or critic.is_recurrent
        weights, own = contract.actor_and_critic(actor, None if recurrent else critic)
        super().__init__(engine, verbose, weights, own)
        self._lr_scale = contract.LRScale(algorithm.optimizer, critic_params=own)
        engine.attach(algorithm.num_learning_epochs, weights, contract.learning_rate(algorithm.optimizer))
        runner.learn, runner.logger.log = self.learn, self.log
        algorithm.update, algorithm.save, algorithm.load = self.update, self.save, self.load
        for name in ("mini_batch_generator", "recurrent_mini_batch_generator"):
            setattr(algorithm.storage, name, self._monitored(name))

    def learn(self, *args: Any, **kwargs: Any) -> None:
        """Learn as usual, and print the advice at the end."""
        type(self.runner).learn(self.runner, *args, **kwargs)
        if self.runner.alg.gpu_global_rank == 0:
            self.print_advice()

    def update(self) -> Any:
        """Update as usual, with the choice in place of the epochs, and a rule in place of the KL rule."""
        algorithm, before = self.runner.alg, self._lr_scale.count
        settings = self.begin(
            self._rollout,
            lambda: float(algorithm.storage.returns.double().mean()),
            learning_rate=contract.learning_rate(algorithm.optimizer),
            score=contract.mean(self.runner.logger.rewbuffer),
        )
        epochs = settings.epochs if self.engine.controls else algorithm.num_learning_epochs
        schedule = "fixed" if self.engine.needs_evaluation else algorithm.schedule
        own = {"num_learning_epochs": epochs, "schedule": schedule}
        with contract.replaced(algorithm, **own), contract.replaced(self._lr_scale, settings=settings):
            losses = type(algorithm).update(algorithm)
        self.finish((self._lr_scale.count - before) / algorithm.num_mini_batches)
        return losses

    def _monitored(self, name: str) -> Any:
        """Return a generator of minibatches that takes note of each epoch's end, and keeps the rule's guard."""
        storage = self.runner.alg.storage

        def generator(num_mini_batches: int, num_epochs: int = 8) -> Iterator[Any]:
            own = getattr(type(storage), name)(storage, num_mini_batches, num_epochs)
            for number, batch in enumerate(own, 1):
                yield batch
                epoch, rest = divmod(number, num_mini_batches)
                if rest == 0 and epoch < num_epochs and self.epoch_ended(epoch):
                    self.runner.alg.num_learning_epochs = epoch  # PPO divides the sums of its losses by it
                    return

        return generator

    def _rollout(self) -> Rows:
        storage, actor = self.runner.alg.storage, self.runner.alg.get_policy()
        steps, environments = storage.advantages.shape[:2]
        groups = time_groups(steps, environments)
        explained = explained_variance(storage.values, storage.returns)
        if actor.is_recurrent:
            return self._sequences(groups.reshape(steps, environments), explained)
        chosen = self.engine.choose_rows(steps * environments)
        taken = torch.as_tensor(chosen, device=storage.device)
        observations, actions, advantages, deployed, returns = (
            getattr(storage, name).flatten(0, 1)[taken]
            for name in ("observations", "actions", "advantages", "actions_log_prob", "returns")
        )

        def passes() -> Any:
            actor(observations, stochastic_output=True)
            return actor.get_output_log_prob(actions)

        # The critic is asked for its values again, since its normaliser went on.
        critic = self.critic_rows(lambda: self.runner.alg._raw_critic(observations).flatten(), returns.flatten())
        return Rows(passes, advantages.flatten(), groups[chosen], deployed.flatten(), explained, critic)

    def _sequences(self, groups: Any, explained: float | None) -> Rows:
        """Return whole sequences of some environments, cut where episodes end, as PPO passes them."""
        storage, actor = self.runner.alg.storage, self.runner.alg.get_policy()
        steps, environments = groups.shape
        chosen = self.engine.choose_rows(environments, max(1, self.engine.max_rows // steps))
        taken = torch.as_tensor(chosen, device=storage.device)
        part = copy.copy(storage)
        part.num_envs = len(chosen)
        names = ("observations", "actions", "dones", "values", "returns", "advantages", "actions_log_prob")
        for name in names:
            setattr(part, name, getattr(storage, name)[:, taken])
        part.distribution_params = tuple(each[:, taken] for each in storage.distribution_params)
        for name in ("saved_hidden_state_a", "saved_hidden_state_c"):
            states = getattr(storage, name)
            setattr(part, name, None if states is None else [each[:, :, taken] for each in states])
        batch = next(type(storage).recurrent_mini_batch_generator(part, 1, 1))

        def passes() -> Any:
            actor(batch.observations, masks=batch.masks, hidden_state=batch.hidden_states[0], stochastic_output=True)
            return actor.get_output_log_prob(batch.actions).flatten()

        deployed = part.actions_log_prob.flatten()
        return Rows(passes, part.advantages.flatten(), groups[:, chosen].ravel(), deployed, explained)

    def log(self, it: int, *args: Any, **kwargs: Any) -> None:
        """Log as usual, and ADEPT's numbers to the same writer."""
        logger = self.runner.logger
        type(logger).log(logger, it, *args, **kwargs)
        if logger.writer is not None:
            for name, value in self.engine.metrics().items():
                logger.writer.add_scalar(name, value, it)

    def save(self) -> dict[str, Any]:
        """Return what the checkpoint keeps, with the rule's state among it."""
        saved: dict[str, Any] = type(self.runner.alg).save(self.runner.alg)
        return saved | {STATE: self.engine.state_dict()}

    def load(self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool) -> Any:
        """Load as usual, and continue from the state unless `load_cfg` leaves it out with the optimiser's."""
        algorithm = self.runner.alg
        result = type(algorithm).load(algorithm, loaded_dict, load_cfg, strict)
        wanted = load_cfg is None or load_cfg.get(STATE, load_cfg.get("optimizer", False))
        state = loaded_dict.get(STATE, {}) if wanted else {}
        self.engine.load_state_dict(state, forget=f"load with load_cfg={{..., {STATE!r}: False}}")
        return result
