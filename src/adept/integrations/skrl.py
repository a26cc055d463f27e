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
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from adept.engine import PREFIX, Engine
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import Rows, explained_variance
from adept.integrations import contract
from adept.rules import Settings

contract.require_framework("skrl", package="skrl", at_least="2.1", below="2.2", extra="skrl")

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
    contract.refuse_second(agent, "agent")
    agent.adept = _Attached(agent, Engine(scheduler, host="skrl", **options), verbose)
    return agent


class _Minibatches(list[Any]):
    """The minibatches of an epoch, which know whether the agent took all of them."""

    taken = False

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        self.taken = True


class _Attached(contract.Adapter):
    """Stand between an agent and its update, and between the update and its memory."""

    def __init__(self, agent: Any, engine: Engine, verbose: int) -> None:
        self.agent = agent
        self._values: Any = None
        self._sampled, self._cut, self._guards = 0, False, False
        self._minibatches = _Minibatches()
        self._perturbed = isinstance(agent, RPO)
        recurrent = isinstance(agent, PPO_RNN | RPO_RNN)
        weights, own = contract.actor_and_critic(agent.policy, None if recurrent else agent.value)
        super().__init__(engine, verbose, weights, own)
        self._lr_scale = contract.LRScale(agent.optimizer, critic_params=own)
        rate = contract.learning_rate(agent.optimizer)
        engine.attach(agent.cfg.learning_epochs, None if recurrent else weights, rate)
        agent.update, agent.load = self.update, self.load
        agent.memory.set_tensor_by_name = self.set_tensor_by_name
        agent.memory.sample = self.sample
        agent.checkpoint_modules[PREFIX] = self

    def set_tensor_by_name(self, name: str, tensor: Any) -> None:
        """Write to the memory as usual; once advantages are there, choose: the epochs are about to begin."""
        agent, memory = self.agent, self.agent.memory
        type(memory).set_tensor_by_name(memory, name, tensor)
        if name == "values":
            self._values = agent._value_preprocessor(tensor, inverse=True)  # before the returns change its scale
        if name == "advantages":
            returns = agent._value_preprocessor(memory.get_tensor_by_name("returns"), inverse=True)
            explained = explained_variance(self._values, returns)
            settings = self.begin(
                lambda: self._rows(explained) if self.engine.wants_rows else None,  # the guard is skrl's KL stop
                lambda: float(returns.double().mean()),
                learning_rate=contract.learning_rate(agent.optimizer),
                score=contract.mean(agent._track_rewards),
            )
            self._sampled, self._cut = 0, False
            if self.engine.controls:
                agent.cfg.learning_epochs, self._lr_scale.settings = settings.epochs, settings

    def _rows(self, explained: float | None) -> Rows:
        agent, memory = self.agent, self.agent.memory
        steps, environments = memory.get_tensor_by_name("advantages").shape[:2]
        chosen = self.engine.choose_rows(steps * environments)
        names = ("observations", "states", "actions", "log_prob", "advantages", "returns")
        columns: list[Any] = [None if each is None else each[chosen] for each in memory.sample_all(names=names)[0]]
        observations, states, actions, deployed, advantages, returns = columns

        def passed(model: Any, role: str, **given: Any) -> Any:
            model.eval()  # as it acts; the evaluation restores the mode
            inputs = {
                "observations": agent._observation_preprocessor(observations),
                "states": agent._state_preprocessor(states),
            }
            return model.act(inputs | given, role=role)

        def log_probs() -> Any:
            perturbed = {"alpha": agent.cfg.alpha} if self._perturbed else {}
            return passed(agent.policy, "policy", taken_actions=actions, **perturbed)[1]["log_prob"]

        def values() -> Any:
            return passed(agent.value, "value")[0].flatten()

        return Rows(
            log_probs,
            advantages.flatten(),
            time_groups(steps, environments)[chosen],
            # RPO's stored log-probabilities have another perturbation; passes of an evaluation have one and the same.
            None if self._perturbed else deployed.flatten(),
            explained,
            # In the units of the network, which a value preprocessor changes with every rollout.
            self.critic_rows(values, returns.flatten()),
        )

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """Sample as usual; the epoch before this one is over, and the update too if the guard cut it."""
        if self._sampled and not self._cut:
            self._cut = not self._minibatches.taken
            if not self._cut:
                self.engine.mark(self._sampled)
        self._sampled += 1
        self._minibatches = _Minibatches()  # frees those of the last epoch
        if self._cut and self._guards:
            return []
        self._minibatches = _Minibatches(type(self.agent.memory).sample(self.agent.memory, *args, **kwargs))
        return self._minibatches

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Update as usual, except for the choice, and keep the number of epochs out of the learning rate."""
        agent, engine, cfg, before = self.agent, self.engine, self.agent.cfg, self._lr_scale.count
        epochs, limit, guard = cfg.learning_epochs, cfg.kl_threshold, engine.rule.kl_stop
        # In the first update a preprocessor of observations learns its scale, which alone moves the KL: no guard then.
        settled = engine.updates > 0 or not (cfg.observation_preprocessor or cfg.state_preprocessor)
        self._guards = guard is not None and settled and not self._perturbed
        if guard is not None and self._guards:
            limit = min(guard, limit or guard)
        schedule: Any = agent.scheduler if engine.controls else None
        held: AbstractContextManager[Any] = nullcontext() if schedule is None else contract.held_steps(schedule)
        own = contract.replaced(cfg, learning_epochs=epochs, kl_threshold=limit)
        try:
            with own, contract.replaced(self._lr_scale, settings=Settings(1)), held as asked:
                type(agent).update(agent, timestep=timestep, timesteps=timesteps)
        finally:
            self._sampled, self._cut, self._minibatches = 0, False, _Minibatches()
        if not isinstance(schedule, KLAdaptiveLR):
            for _ in range(epochs if schedule is not None else 0):
                schedule.step()
        elif engine.rule.needs_reward:  # a rule moves the rate itself, and the two would work against each other
            schedule.step(*asked[0])
        for name, value in self.finish((self._lr_scale.count - before) / cfg.mini_batches).items():
            agent.track_data(name, value)
        if timestep + cfg.rollouts >= timesteps:
            self.print_advice()

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
