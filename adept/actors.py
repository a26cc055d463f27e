"""Actors: ways of running a policy on the observations of one step. All of them act alike, up to rounding."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from adept.envs.base import Array
from adept.networks import ActorCritic


class Decision(NamedTuple):
    """The actions of one step, their log-probabilities, and, where they come for free, the values."""

    actions: Array
    log_probs: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32] | None


class Actor(Protocol):
    """Choose the actions of one step."""

    def refresh(self) -> None:
        """Take over the network's parameters, once before every rollout."""

    def act(self, observations: Tensor, noise: Array) -> Decision:
        """Sample actions for observations on the network's device, using the noise drawn for this step."""


class TorchActor:
    """Run the network as it is: the reference, and what runs on a GPU."""

    def __init__(self, network: ActorCritic, device: torch.device) -> None:
        self._network, self._device = network, device
        self._discrete = not network.distribution.action_shape

    def refresh(self) -> None:
        """Nothing to do: the network itself is run."""

    @torch.inference_mode()
    def act(self, observations: Tensor, noise: Array) -> Decision:
        """Sample actions; everything comes to the host in one transfer, so that a GPU is waited for only once."""
        distribution = self._network.distribution
        parameters, values = self._network(observations)
        actions = distribution.sample(parameters, torch.from_numpy(noise).to(self._device, non_blocking=True))
        log_probs = distribution.log_prob(parameters, actions)
        if self._device.type == "cpu":
            return Decision(actions.numpy(), log_probs.numpy(), values.numpy())
        rows = actions.reshape(len(actions), -1).to(torch.float32)
        packed = torch.cat([log_probs[:, None], values[:, None], rows], 1).cpu().numpy()
        chosen = packed[:, 2].astype(np.int64) if self._discrete else packed[:, 2:]
        return Decision(chosen, packed[:, 0], packed[:, 1])
