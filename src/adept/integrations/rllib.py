"""ADEPT in RLlib: `attach(config)` evaluates every PPO update, `attach(config, "hindsight")` also chooses the next one.

Each learner evaluates its own rows and has its own copy of the rule. Rewards and feedback are pooled
over all learners before anyone chooses, and a choice follows from a seed and what was pooled alone, so that all
learners make the same choice and none waits for another. How an epoch's end is seen: RLlib's iterator of minibatches
counts the passes over the batch; with several learners it does not, and an epoch is its share of the minibatches.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adept.engine import Engine
from adept.hindsight.advice import Advice
from adept.hindsight.estimates import UNKNOWN, Estimate, time_groups
from adept.hindsight.evaluation import LENGTHS, CriticRows, Feedback, Rows, explained_variance
from adept.hindsight.weights import ModuleWeights
from adept.integrations import contract
from adept.rules import Settings

contract.require_framework("ray.rllib", package="ray", at_least="2.60", below="2.61", extra="rllib")

import torch  # noqa: E402
import tree  # noqa: E402
from ray.exceptions import RayError  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner  # noqa: E402
from ray.rllib.core.columns import Columns  # noqa: E402
from ray.rllib.evaluation.postprocessing import Postprocessing  # noqa: E402
from ray.rllib.utils.metrics import ALL_MODULES  # noqa: E402

SCHEDULER = "adept_scheduler"
"""The entry of `learner_config_dict` with what chooses, and the entry of a learner's state with its state."""


def attach(config: PPOConfig, scheduler: Any = None, *, verbose: int = 1, **options: Any) -> PPOConfig:
    """Evaluate the updates of the algorithm that this config builds, and set them if asked to; return the config.

    docs/integrations.md lists what `scheduler` and `options` may be.

    `advice(algorithm)` returns the advice; `algorithm.stop` prints it unless `verbose=0`. `num_epochs` is what a rule,
    or a bandit without arms, starts from. The reward of bandits is the mean value target over the rows of the loss, of
    all trained modules and all learners. The state is part of every learner's. Results have
    `learners/__all_modules__/adept/…`.

    With several learners the advice is that of the first one and its rows alone; logs and rules use the rows of all. An
    epoch is then its share of RLlib's fixed number of minibatches. Several modules share K. Numbers that an update did
    not measure are logged as `nan`. RLlib's adaptive `kl_coeff` depends on K.

    A learner class of your own must derive from `AdeptLearner`. Call it before `config.build_algo`.
    """
    if not isinstance(config, PPOConfig):
        raise ValueError(
            f"got {type(config).__name__}, whose updates have no epochs over one batch to choose; PPOConfig of "
            "ray.rllib.algorithms.ppo is needed: build one"
        )
    if not config.enable_rl_module_and_learner or config.framework_str != "torch":
        raise ValueError(
            f"this config is of the old API stack or of framework {config.framework_str!r}; the new one on torch is "
            "needed: leave out config.api_stack(...) and config.framework(...)"
        )
    chosen = config.learner_class
    if chosen is PPOTorchLearner:
        chosen = AdeptLearner
    if not issubclass(chosen, AdeptLearner):
        raise ValueError(
            f"the learner class is {chosen.__name__}, which does not take a scheduler; derive it from "
            "adept.integrations.rllib.AdeptLearner, a PPOTorchLearner that does"
        )
    Engine(scheduler, **options)  # what is wrong with them is said here, not on the learners
    entries = {**config.learner_config_dict, SCHEDULER: {"given": scheduler, **options}}
    if verbose and options.get("monitor", True):
        own = config.callbacks_on_algorithm_init or []
        config.callbacks(on_algorithm_init=[*(own if isinstance(own, list) else [own]), _print_advice_at_the_end])
    return config.learners(learner_class=chosen, learner_config_dict=entries)


def advice(algorithm: Any) -> Advice:
    """Return what the updates of an algorithm so far say of its epochs and learning rate, seen by its first learner."""
    found = algorithm.learner_group.foreach_learner(lambda learner: learner.engine.advice())
    result = next(iter(found))
    first: Advice = result.get() if hasattr(result, "get") else result
    return first


def _print_advice_at_the_end(algorithm: Any, **_: Any) -> None:
    """Have the algorithm print its advice before it stops its learners."""

    def cleanup() -> None:
        try:
            print(f"adept: {advice(algorithm)}")
        except (RayError, StopIteration):
            pass  # a learner that is gone has nothing to say, and must not keep the others from being stopped
        finally:
            type(algorithm).cleanup(algorithm)

    algorithm.cleanup = cleanup


class AdeptLearner(PPOTorchLearner):
    """The PPO learner, except that it evaluates its updates, and chooses once the returns of a batch are known."""

    def build(self) -> None:
        """Build as usual, with an engine of this learner's own."""
        super().build()
        settings = copy.deepcopy(self.config.learner_config_dict[SCHEDULER])
        self.engine = Engine(settings.pop("given"), host="rllib", pool=self._pooled, **settings)
        self._evaluated_modules = torch.nn.ModuleList(
            module.unwrapped() for _, module in self.module.items() if isinstance(module.unwrapped(), torch.nn.Module)
        )
        self._weights = ModuleWeights(self._evaluated_modules)
        optimizers = list(self._named_optimizers.values())
        self.engine.attach(self.config.num_epochs, self._weights, max(map(contract.learning_rate, optimizers)))
        self._lr_scales = [
            contract.LRScale(optimizer, critic_params=self._critic_of(optimizer)) for optimizer in optimizers
        ]
        self._made: Any = None
        self._epochs_done = 0.0

    def _critic_of(self, optimizer: Any) -> list[Any]:
        """Return the parameters of an optimiser that only a critic has."""
        own = {id(parameter) for module in self._evaluated_modules for parameter in _critic_parameters(module)}
        return [each for group in optimizer.param_groups for each in group["params"] if id(each) in own]

    def _make_batch_if_necessary(self, training_data: Any) -> Any:
        made, self._made = self._made, None
        return super()._make_batch_if_necessary(training_data) if made is None else made

    def _create_iterator_if_necessary(
        self, *, training_data: Any, num_total_minibatches: int = 0, num_epochs: int = 1, **kwargs: Any
    ) -> Any:
        """Iterate as usual, for as many epochs as are chosen."""
        batch, engine = self._make_batch_if_necessary(training_data), self.engine
        rows = engine.rollout(lambda: self._rows(batch))
        reward = self._mean_return(batch) if engine.rule.needs_reward else None
        rate = max(contract.learning_rate(optimizer) for optimizer in self._named_optimizers.values())
        settings = engine.begin(rows, reward=reward, learning_rate=rate)
        epochs = settings.epochs if engine.controls else num_epochs
        for lr_scale in self._lr_scales:
            lr_scale.settings = settings
        if num_total_minibatches and epochs != num_epochs:
            # With several learners RLlib fixes the number of minibatches for its own number of epochs; 0 means open.
            num_total_minibatches = max(1, round(num_total_minibatches * epochs / num_epochs))
        self._made = batch  # so that it is not made twice
        minibatches = super()._create_iterator_if_necessary(
            training_data=training_data, num_total_minibatches=num_total_minibatches, num_epochs=epochs, **kwargs
        )
        guarded = rows if engine.rule.kl_stop is not None else None
        return self._monitored(minibatches, guarded, epochs, num_total_minibatches)

    def _monitored(self, minibatches: Any, rows: Rows | None, epochs: int, planned: int) -> Iterator[Any]:
        """Yield the minibatches, take note of each epoch's end, and keep the rule's guard.

        RLlib counts a pass over the batch before it hands out the pass's last minibatch. Where the number of
        minibatches is planned, an epoch ends at its share of them: at the same one on all learners, whatever their
        number of rows, so that all of them meet to compare their KL.
        """
        covered = getattr(minibatches, "_num_covered_epochs", {})
        ended, self._epochs_done = 0, 0.0
        for number, minibatch in enumerate(minibatches, 1):
            yield minibatch  # the learner comes back for the next one when this one's step is done
            done = math.floor(epochs * number / planned + 1e-9) if planned else min(covered.values(), default=0)
            if done > ended:
                ended, self._epochs_done = done, float(done)
                self.engine.mark(done)
                guarded = self.engine.rule.kl_stop is not None and (planned > 0 or not self.distributed)
                if guarded and done < epochs and self.engine.stops(self._kl(rows)):
                    return
        self._epochs_done = float(epochs)

    def _kl(self, rows: Rows | None) -> float:
        with self._weights.current():
            known = [0.0, 0.0] if rows is None else [rows.divergence(), 1.0]
        total, count = self._summed(known)
        return total / count if count else 0.0

    def _summed(self, values: list[float]) -> list[float]:
        """Return the sums of some numbers over all learners."""
        if not self.distributed:
            return values
        sums = torch.tensor(values, dtype=torch.float64, device=self._device)
        torch.distributed.all_reduce(sums)
        return [float(value) for value in sums]

    def _parts(self, batch: Any) -> list[_Part]:
        """Return the rows of each module that is trained on this batch."""
        return [
            _Part(self.module[module_id].unwrapped(), columns)
            for module_id, columns in batch.policy_batches.items()
            if self.should_module_be_updated(module_id, batch) and Postprocessing.ADVANTAGES in columns
        ]

    def _rows(self, batch: Any) -> Rows | None:
        """Return the steps that count for the loss, of all modules that are trained, in order of time."""
        parts, groups = self._parts(batch), list[Any]()
        if not parts:
            return None
        for part in parts:
            own = part.choose(self.engine, max(1, self.engine.max_rows // len(parts)))
            groups.append(own + (groups[-1].max() + 1 if groups else 0))

        def column(name: str) -> Any:
            return torch.cat([part.column(name)[part.chosen] for part in parts])

        explained, critic = None, None
        if all(hasattr(part.module, "compute_values") for part in parts):  # batches lack the critic's predictions
            returns = column(Postprocessing.VALUE_TARGETS)
            with self._weights.current():
                now = torch.cat([part.values() for part in parts])
            explained = explained_variance(now, returns)
            if all(_critic_parameters(part.module) for part in parts):
                critic = CriticRows(lambda: torch.cat([part.values() for part in parts]), now, returns - now)
        return Rows(
            lambda: torch.cat([part.log_probs() for part in parts]),
            column(Postprocessing.ADVANTAGES),
            np.concatenate(groups),
            column(Columns.ACTION_LOGP),
            explained,
            critic,
        )

    def _pooled(self, feedback: Feedback | None) -> Feedback | None:
        """Make one of the feedback of all learners: means over them, of estimates that are independent."""
        if not self.distributed:
            return feedback
        own, epochs = feedback or Feedback(), self.engine.marks
        estimates = [own.slope, own.critic_slope, own.update_gain]
        estimates += [own.gain_by_epoch.get(epoch, UNKNOWN) for epoch in epochs]
        estimates += [own.gain_by_length.get(length, UNKNOWN) for length in LENGTHS]
        parts = [[each.value, each.error**2, each.freedom, 1.0] if each.known else [0.0] * 4 for each in estimates]
        stopped = None if feedback is None else float(own.stopped)
        numbers = (own.kl, own.explained_variance, own.epochs_done, own.reward, stopped)
        parts += [[0.0, 0.0] if each is None else [each, 1.0] for each in numbers]
        sums = iter(self._summed([value for part in parts for value in part]))
        slope, critic, gain, *gains = [_mean_estimate(*(next(sums) for _ in range(4))) for _ in estimates]
        means = [total / count if count else None for total, count in zip(sums, sums, strict=True)]
        if means[-1] is None:  # no learner knows anything
            return None
        known = [(key, each) for key, each in zip((*epochs, *LENGTHS), gains, strict=True) if each.known]
        return Feedback(
            slope=slope,
            critic_slope=critic,
            update_gain=gain,
            gain_by_epoch={key: each for key, each in known if isinstance(key, int)},
            gain_by_length={key: each for key, each in known if isinstance(key, float)},
            kl=means[0],
            explained_variance=means[1],
            epochs_done=None if means[2] is None else round(means[2]),
            reward=means[3],
            stopped=bool(means[4]),
        )

    def _mean_return(self, batch: Any) -> float | None:
        """Return the mean value target of what counts for the loss, over all learners."""
        targets = [part.column(Postprocessing.VALUE_TARGETS)[part.counted].double() for part in self._parts(batch)]
        returns, count = self._summed([sum(float(each.sum()) for each in targets), float(sum(map(len, targets)))])
        return returns / count if count else None

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Finish as usual, and log what was evaluated, asked for and done."""
        super().after_gradient_based_update(timesteps=timesteps)
        for lr_scale in self._lr_scales:
            lr_scale.settings = Settings(1)
        self.engine.finished(self._epochs_done)
        for name, value in self.engine.metrics().items():
            self.metrics.log_value((ALL_MODULES, name), value, window=1)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> Any:
        """Return the learner's state, with the rule's among it."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self.engine.controls and self._check_component(SCHEDULER, components, not_components):
            state[SCHEDULER] = self.engine.state_dict()
        return state

    def set_state(self, state: Any) -> None:
        """Continue from a state; one without a rule's leaves it as it is."""
        super().set_state(state)
        found = state.get(SCHEDULER, {})
        self.engine.load_state_dict(found, forget=f"drop {SCHEDULER!r} from the learner's state")


def _mean_estimate(values: float, squared_errors: float, freedom: float, count: float) -> Estimate:
    """Return the mean of independent estimates, given sums over them."""
    return Estimate(values / count, math.sqrt(squared_errors) / count, freedom) if count else UNKNOWN


def _critic_parameters(module: Any) -> list[Any]:
    """Return the parameters that only the values of an RLlib module depend on; none where that is not known."""
    parts = [getattr(module, "vf", None), getattr(getattr(module, "encoder", None), "critic_encoder", None)]
    return [parameter for part in parts if isinstance(part, torch.nn.Module) for parameter in part.parameters()]


class _Part:
    """The rows of one module in a batch, of which some are evaluated."""

    def __init__(self, module: Any, columns: Any) -> None:
        self.module, self.columns = module, dict(columns)  # RLlib shuffles the batch in place, epoch by epoch
        mask = columns.get(Columns.LOSS_MASK)
        self._length = len(columns[Postprocessing.ADVANTAGES])
        everything = torch.arange(self.column(Postprocessing.ADVANTAGES).numel())
        self.counted = everything if mask is None else everything[mask.flatten().bool().cpu()]
        self.chosen = self.counted

    def choose(self, engine: Engine, limit: int) -> Any:
        """Choose the rows that evaluate updates; return their groups."""
        chosen = engine.choose_rows(len(self.counted), limit)
        self.chosen = self.counted[torch.as_tensor(chosen)]
        return time_groups(len(self.counted), 1)[chosen]

    def column(self, name: str) -> Any:
        """Return a column of the batch, one value per row."""
        return self.columns[name].flatten()

    def log_probs(self) -> Any:
        """Return the log-probabilities of the chosen rows under the present parameters."""
        return self._of_chosen(self._log_probs)

    def values(self) -> Any:
        """Return the critic's predictions for the chosen rows."""
        return self._of_chosen(lambda columns: self.module.compute_values(columns).flatten())

    def _of_chosen(self, passed: Callable[[dict[str, Any]], Any]) -> Any:
        """Pass the chosen rows through the module; where it has a state, all of them, since they are sequences."""
        self.module.eval()  # as it acts; the evaluation restores the mode
        if Columns.STATE_IN in self.columns:
            return passed(dict(self.columns))[self.chosen]
        return passed(
            {
                name: tree.map_structure(lambda value: value[self.chosen], column)
                for name, column in self.columns.items()
                if all(value.shape[:1] == (self._length,) for value in tree.flatten(column))
            }
        )

    def _log_probs(self, columns: dict[str, Any]) -> Any:
        logits = self.module.forward_train(columns)[Columns.ACTION_DIST_INPUTS]
        distribution = self.module.get_train_action_dist_cls().from_logits(logits)
        return distribution.logp(columns[Columns.ACTIONS]).flatten()
