"""ADEPT in skrl: `schedule_epochs(agent, scheduler)` chooses the learning epochs of every update."""

from __future__ import annotations

from typing import Any

from adept.integrations import contract
from adept.schedulers import Scheduler

contract.require_framework("skrl", package="skrl", at_least="2.1", below="2.2", extra="skrl")

from skrl import config  # noqa: E402
from skrl.agents.torch.ppo import PPO, PPO_RNN  # noqa: E402
from skrl.agents.torch.rpo import RPO, RPO_RNN  # noqa: E402
from skrl.resources.schedulers.torch import KLAdaptiveLR  # noqa: E402

AGENTS = (PPO, PPO_RNN, RPO, RPO_RNN)


def schedule_epochs(agent: Any, scheduler: Scheduler[int]) -> Any:
    """Let a scheduler choose the learning epochs of each update of this agent; return the agent.

    The reward is the mean GAE return, without the scaling of a value preprocessor. The state is the checkpoint
    module `adept`, and `adept/…` is tracked with the agent's data.

    skrl steps its learning-rate scheduler once per epoch. Here it makes `cfg.learning_epochs` steps after each
    update, as it would without ADEPT, whatever the choice. `KLAdaptiveLR`, which looks at an epoch's divergence,
    makes one step, with the divergence of the first epoch: the one that every choice has.

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
    _EpochScheduler(agent, contract.epoch_scheduler(scheduler)).install()
    return agent


class _EpochScheduler:
    """Stand between an agent and its update, and between the update and the memory that it writes returns to."""

    def __init__(self, agent: Any, scheduler: Scheduler[int]) -> None:
        self.agent = agent
        self.scheduler = scheduler
        self._configured = agent.cfg.learning_epochs
        self._steps = contract.GradientSteps(agent.optimizer)
        self._reward: float | None = None

    def install(self) -> None:
        """Take the place of the two methods, and a place in the checkpoint."""
        self.agent.update = self.update
        self.agent.memory.set_tensor_by_name = self.set_tensor_by_name
        self.agent.checkpoint_modules[contract.PREFIX] = self

    def set_tensor_by_name(self, name: str, tensor: Any) -> None:
        """Write to the memory as ever; when the returns come, choose: the epochs are about to begin."""
        memory = self.agent.memory
        type(memory).set_tensor_by_name(memory, name, tensor)
        if name == "returns":
            returns = self.agent._value_preprocessor(tensor, inverse=True)
            self._reward = float(returns.double().mean())
            self.agent.cfg.learning_epochs = self.scheduler.step(self._reward)

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Update as ever, except for the number of epochs, and keep it out of the learning rate."""
        agent, before = self.agent, self._steps.count
        try:
            if agent.scheduler is None:
                type(agent).update(agent, timestep=timestep, timesteps=timesteps)
            else:
                self._update_with_schedule(timestep, timesteps)
            epochs = agent.cfg.learning_epochs
        finally:
            agent.cfg.learning_epochs = self._configured
        done = (self._steps.count - before) / agent.cfg.mini_batches
        numbers = contract.metrics(self.scheduler, epochs=epochs, epochs_done=done, reward=self._reward)
        for name, value in numbers.items():
            agent.track_data(name, value)

    def _update_with_schedule(self, timestep: int, timesteps: int) -> None:
        agent, learning_rate = self.agent, self.agent.scheduler
        with contract.held_steps(learning_rate) as asked:
            type(agent).update(agent, timestep=timestep, timesteps=timesteps)
        if isinstance(learning_rate, KLAdaptiveLR):
            learning_rate.step(*asked[0])
            return
        for _ in range(self._configured):
            learning_rate.step()

    def state_dict(self) -> dict[str, Any]:
        """Return what the agent's checkpoint keeps of the scheduler."""
        return self.scheduler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `agent.load` found."""
        contract.restore(self.scheduler, state, forget="drop 'adept' from the checkpoint")
