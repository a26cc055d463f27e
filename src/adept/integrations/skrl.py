"""ADEPT in skrl: `attach(agent)` evaluates every update, `attach(agent, "hindsight")` also chooses the next one.

How an epoch's end is seen: `memory.sample` is called once per epoch, so that a call ends the epoch before it. Recurrent
agents do not call it, and their rows are sequences: their updates are not evaluated, so that only bandits can choose.

skrl's KL stop ends an epoch, not the update. Where a rule's guard used it, the epochs that are left get no
minibatches. RPO perturbs the policy at each pass, so that skrl's KL is that of the perturbation: RPO is evaluated with
one perturbation for all passes, and has no guard. A preprocessor of observations learns its scale in the first update,
which then has no guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adept.engine import PREFIX, Engine
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import CriticRows, Rows, explained_variance
from adept.hindsight.weights import ModuleWeights
from adept.integrations import contract

contract.require_framework("skrl", package="skrl", at_least="2.1", below="2.2", extra="skrl")

import torch  # noqa: E402
from skrl import config  # noqa: E402
from skrl.agents.torch.ppo import PPO, PPO_RNN  # noqa: E402
from skrl.agents.torch.rpo import RPO, RPO_RNN  # noqa: E402
from skrl.resources.schedulers.torch import KLAdaptiveLR  # noqa: E402

AGENTS = (PPO, PPO_RNN, RPO, RPO_RNN)


def attach(agent: Any, scheduler: Any = None, *, verbose: int = 1, **options: Any) -> Any:
    """Evaluate the updates of this agent on the next rollout, and set them if asked to; return the agent.

    docs/integrations.md lists what `scheduler` and `options` may be.

    `agent.adept.advice()` returns the advice; it is printed after the last update unless `verbose=0`. The reward of
    bandits is the mean GAE return, without the scaling of a value preprocessor. The state is the checkpoint module
    `adept`, which an agent without ADEPT skips; `adept/…` is tracked with the agent's data.

    The learning-rate scheduler makes `cfg.learning_epochs` steps after each update, whatever the choice.
    `KLAdaptiveLR` makes one step, with the KL of the first epoch; a rule takes its place, and it makes none.

    Call it once, before `agent.load` and before training.
    """
    if not isinstance(agent, AGENTS):
        raise ValueError(
            f"got {type(agent).__name__}, whose learning epochs cannot be chosen here; the agents that can are "
            f"{', '.join(allowed.__name__ for allowed in AGENTS)} of skrl.agents.torch: build one of these"
        )
    if config.torch.is_distributed:
        raise ValueError(
            "this run is distributed, and every rank would make its own choice; skrl agents are scheduled in "
            "single-process runs: start it without torchrun"
        )
    if "adept" in agent.checkpoint_modules:
        raise ValueError("this agent has a scheduler already, one is allowed; build a new agent")
    agent.adept = _Attached(agent, Engine(scheduler, **{"host": "skrl", **options}), verbose)
    return agent


class _Minibatches(list[Any]):
    """The minibatches of an epoch, which know whether the agent took all of them."""

    taken = False

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        self.taken = True


class _Attached:
    """Stand between an agent and its update, and between the update and its memory."""

    def __init__(self, agent: Any, engine: Engine, verbose: int) -> None:
        self.agent, self.engine, self._verbose = agent, engine, verbose
        self._epochs = agent.cfg.learning_epochs
        self._reward: float | None = None
        self._values: Any = None
        self._explained: float | None = None
        self._sampled, self._cut, self._guarded = 0, False, False
        self._minibatches = _Minibatches()
        self._perturbed = isinstance(agent, RPO)
        recurrent = isinstance(agent, PPO_RNN | RPO_RNN)
        own = [] if recurrent else contract.own_parameters(agent.value, agent.policy)
        self._has_own_critic = bool(own)
        self._weights = ModuleWeights(torch.nn.ModuleList([agent.policy, agent.value] if own else [agent.policy]))
        self._steps = contract.LRScale(agent.optimizer, critic_params=own)
        engine.attach(self._epochs, None if recurrent else self._weights, contract.learning_rate(agent.optimizer))
        agent.update, agent.load = self.update, self.load
        agent.memory.set_tensor_by_name = self.set_tensor_by_name
        agent.memory.sample = self.sample
        agent.checkpoint_modules[PREFIX] = self
        self.advice = engine.advice

    def set_tensor_by_name(self, name: str, tensor: Any) -> None:
        """Write to the memory as usual; once advantages are there, choose: the epochs are about to begin."""
        agent, memory = self.agent, self.agent.memory
        type(memory).set_tensor_by_name(memory, name, tensor)
        if name == "values":
            self._values = agent._value_preprocessor(tensor, inverse=True)
        if name == "returns":
            returns = agent._value_preprocessor(tensor, inverse=True)
            self._reward = float(returns.double().mean())
            self._explained = explained_variance(self._values, returns)
        if name == "advantages":
            rows = self.engine.rollout(self._rows) if self.engine.wants_rows else None
            settings = self.engine.step(
                rows,
                reward=self._reward if self.engine.rule.needs_reward else None,
                learning_rate=contract.learning_rate(agent.optimizer),
                score=contract.mean(agent._track_rewards),
            )
            self._sampled, self._cut = 0, False
            if self.engine.controls:
                agent.cfg.learning_epochs, self._steps.settings = settings.epochs, settings

    def _rows(self) -> Rows:
        agent, memory = self.agent, self.agent.memory
        steps, environments = memory.get_tensor_by_name("advantages").shape[:2]
        names = ("observations", "states", "actions", "log_prob", "advantages", "returns")
        chosen = self.engine.choose_rows(steps * environments)
        columns: dict[str, Any] = {
            name: None if values is None else values[chosen]
            for name, values in zip(names, memory.sample_all(names=names)[0], strict=True)
        }

        def inputs() -> dict[str, Any]:
            return {
                "observations": agent._observation_preprocessor(columns["observations"]),
                "states": agent._state_preprocessor(columns["states"]),
            }

        def passes() -> Any:
            given = {**inputs(), "taken_actions": columns["actions"]}
            if self._perturbed:
                given["alpha"] = agent.cfg.alpha
            agent.policy.eval()  # as it acts; the evaluation restores the mode
            return agent.policy.act(given, role="policy")[1]["log_prob"]

        def values() -> Any:
            agent.value.eval()
            return agent.value.act(inputs(), role="value")[0].flatten()

        # RPO's stored log-probabilities have another perturbation; passes of an evaluation have one and the same.
        deployed = None if self._perturbed else columns["log_prob"].flatten()
        groups = time_groups(steps, environments)[chosen]
        critic = None
        if self._has_own_critic:  # in the units of the network, which a value preprocessor changes with every rollout
            with self._weights.current():
                now = values()
            critic = CriticRows(values, now, columns["returns"].flatten() - now)
        return Rows(passes, columns["advantages"].flatten(), groups, deployed, self._explained, critic)

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """Sample as usual; the epoch before this one is over, and the update too if the guard cut it."""
        if self._sampled and not self._cut:
            self._cut = not self._minibatches.taken
            if not self._cut:
                self.engine.mark(self._sampled)
        self._sampled += 1
        self._minibatches = _Minibatches()  # frees those of the last epoch
        if self._cut and self._guarded:
            return []
        self._minibatches = _Minibatches(type(self.agent.memory).sample(self.agent.memory, *args, **kwargs))
        return self._minibatches

    @property
    def _guards(self) -> bool:
        """Whether the KL stop of skrl stands for the rule's guard.

        In the first update a preprocessor of observations learns its scale, which alone moves the KL. That update is
        made as the agent was configured, and goes unguarded.
        """
        cfg = self.agent.cfg
        settled = self.engine.updates > 0 or not (cfg.observation_preprocessor or cfg.state_preprocessor)
        return self.engine.rule.kl_stop is not None and not self._perturbed and settled

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Update as usual, except for the choice, and keep the number of epochs out of the learning rate."""
        agent, before, own_limit = self.agent, self._steps.count, self.agent.cfg.kl_threshold
        self._guarded = self._guards
        kl_stop = self.engine.rule.kl_stop
        if kl_stop is not None and self._guarded:
            agent.cfg.kl_threshold = min(kl_stop, own_limit or kl_stop)
        try:
            if agent.scheduler is None or not self.engine.controls:
                type(agent).update(agent, timestep=timestep, timesteps=timesteps)
            else:
                self._update_with_schedule(timestep, timesteps)
        finally:
            agent.cfg.learning_epochs, agent.cfg.kl_threshold, self._steps.factor = self._epochs, own_limit, 1.0
            self._sampled, self._cut, self._minibatches = 0, False, _Minibatches()
        self.engine.finished((self._steps.count - before) / agent.cfg.mini_batches)
        for name, value in self.engine.metrics().items():
            agent.track_data(name, value)
        if self._verbose and self.engine.monitor and timestep + agent.cfg.rollouts >= timesteps:
            print(f"adept: {self.engine.advice()}")

    def _update_with_schedule(self, timestep: int, timesteps: int) -> None:
        agent, learning_rate = self.agent, self.agent.scheduler
        with contract.held_steps(learning_rate) as asked:
            type(agent).update(agent, timestep=timestep, timesteps=timesteps)
        if isinstance(learning_rate, KLAdaptiveLR):
            if self.engine.rule.needs_reward:  # a rule moves the rate itself, and the two would work against each other
                learning_rate.step(*asked[0])
            return
        for _ in range(self._epochs):
            learning_rate.step()

    def load(self, path: str) -> None:
        """Load as usual; the loaded parameters are not those of the last update, also where no state comes along."""
        self.load_state_dict({})
        type(self.agent).load(self.agent, path)

    def state_dict(self) -> dict[str, Any]:
        """Return what the agent's checkpoint keeps."""
        return self.engine.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `agent.load` found."""
        self.engine.load_state_dict(state, forget="drop 'adept' from the checkpoint")
