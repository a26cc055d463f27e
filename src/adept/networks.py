"""Policies: distributions over actions, actor-critic networks (the paper's and Atari's), and actors that run them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from adept.envs.base import ActionSpace, Array, Discrete

HIDDEN_GAIN = math.sqrt(2)
POLICY_GAIN = 0.01
VALUE_GAIN = 1.0


class Categorical:
    """One of n actions; the parameters are logits."""

    def __init__(self, n: int) -> None:
        self.parameter_count = self.outputs = n
        self.action_shape: tuple[int, ...] = ()
        self.action_dtype = torch.int64

    def noise(self, rng: np.random.Generator, *shape: int) -> Array:
        """Draw uniform numbers in [0, 1)."""
        return rng.random(shape, dtype=np.float32)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Return the first action whose cumulative probability passes the noise."""
        cumulated = torch.cumsum(torch.softmax(parameters, -1), -1)
        passed = (cumulated <= noise.unsqueeze(-1)).sum(-1)
        return passed.clamp(max=self.parameter_count - 1)  # rounding may leave the last sum just under 1

    def mode(self, parameters: Tensor) -> Tensor:
        """Return the action of the largest logit."""
        return parameters.argmax(-1)

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """Return log softmax at the action."""
        return torch.log_softmax(parameters, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """Return -Σ p·ln p."""
        log = torch.log_softmax(parameters, -1)
        return -(log.exp() * log).sum(-1)

    def kl(self, parameters: Tensor, others: Tensor) -> Tensor:
        """Return Σ p·(ln p - ln q)."""
        log_p, log_q = torch.log_softmax(parameters, -1), torch.log_softmax(others, -1)
        return (log_p.exp() * (log_p - log_q)).sum(-1)


class DiagonalGaussian:
    """A vector of independent normal numbers; the parameters are the means, then the log deviations."""

    def __init__(self, size: int) -> None:
        self.parameter_count, self.outputs = 2 * size, size
        self.action_shape: tuple[int, ...] = (size,)
        self.action_dtype = torch.float32

    def noise(self, rng: np.random.Generator, *shape: int) -> Array:
        """Draw standard normal numbers."""
        return rng.standard_normal((*shape, *self.action_shape), dtype=np.float32)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Return mean + deviation × noise."""
        mean, log_std = parameters.chunk(2, -1)
        return mean + log_std.exp() * noise

    def mode(self, parameters: Tensor) -> Tensor:
        """Return the mean."""
        return parameters.chunk(2, -1)[0]

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """Return Σ -½((a-μ)/σ)² - ln σ - ½ ln 2π."""
        mean, log_std = parameters.chunk(2, -1)
        scaled = (actions - mean) * torch.exp(-log_std)
        return (-0.5 * scaled**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """Return Σ ln σ + ½ ln 2πe."""
        return (parameters.chunk(2, -1)[1] + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, parameters: Tensor, others: Tensor) -> Tensor:
        """Return Σ ln(σq/σp) + (σp² + (μp-μq)²)/(2σq²) - ½."""
        mean_p, log_p = parameters.chunk(2, -1)
        mean_q, log_q = others.chunk(2, -1)
        ratio = torch.exp(2 * (log_p - log_q))
        return (log_q - log_p + 0.5 * (ratio + ((mean_p - mean_q) * torch.exp(-log_q)) ** 2) - 0.5).sum(-1)


ActionDistribution = Categorical | DiagonalGaussian
"""What PPO needs to know of a family of distributions; `parameters` has one row per observation.

`outputs` of the parameters depend on the observation: what the actor's last layer gives. Sampling takes its noise as an
argument: the noise of a whole rollout is drawn at once from the run's own generator, so that every way of running the
network acts alike.
"""


def distribution_for(actions: ActionSpace) -> ActionDistribution:
    """Return the family of distributions that fits an action space."""
    return Categorical(actions.n) if isinstance(actions, Discrete) else DiagonalGaussian(len(actions.low))


class ActorCritic(nn.Module):
    """Give the parameters of the action distribution and the value of each observation."""

    distribution: ActionDistribution
    encoder: nn.Sequential
    """layers that actor and critic share; empty where they share nothing"""
    heads: Heads
    small: ClassVar[bool] = False
    """whether `adept.fast` has it by hand: 2×2 convolutions, the first one pooled, or none; then tanh layers"""
    repeats: ClassVar[bool] = False
    """whether its observations repeat so often within a minibatch that equal ones are worth computing once"""
    rows_at_once: ClassVar[int | None] = None
    """rows of one pass on the CPU, where more only cost memory and cache; None: any number"""
    uniform_encoder: ClassVar[bool] = False
    """whether all layers but the heads start from uniform numbers within ±1/√fan-in instead of orthogonal weights"""

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return (rows, parameters of the distribution) and (rows,) values."""
        raise NotImplementedError

    def values(self, observations: Tensor) -> Tensor:
        """Return the values alone; cheaper where actor and critic share nothing."""
        return self(observations)[1]  # type: ignore[no-any-return]

    def policy(self, observations: Tensor) -> Tensor:
        """Return the parameters of the distribution alone."""
        return self(observations)[0]  # type: ignore[no-any-return]

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that only the values depend on; layers shared with the policy are not among them."""
        return list(self.heads.critic.parameters())


class Heads(nn.Module):
    """The last layers: features to the parameters of the distribution, and to the value."""

    def __init__(self, distribution: ActionDistribution, actor: nn.Sequential, critic: nn.Sequential) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic
        free = distribution.parameter_count - distribution.outputs
        self.log_std = nn.Parameter(torch.zeros(free)) if free else None

    def policy(self, features: Tensor) -> Tensor:
        """Return the parameters of the distribution."""
        return self.parameters_of(self.actor(features))

    def parameters_of(self, outputs: Tensor) -> Tensor:
        """Return the parameters of the distribution; a Gaussian's deviation does not depend on the state."""
        return outputs if self.log_std is None else torch.cat([outputs, self.log_std.expand_as(outputs)], -1)

    def value(self, features: Tensor) -> Tensor:
        """Return the value."""
        return self.critic(features).squeeze(-1)  # type: ignore[no-any-return]


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the input and its two convolutions."""
        return x + self.second(torch.relu(self.first(torch.relu(x))))  # type: ignore[no-any-return]


class ImageNetwork(ActorCritic):
    """An encoder of uint8 images, which are divided by 255, and a dense layer of features for both heads."""

    def __init__(self, distribution: ActionDistribution, encoder: nn.Sequential, encoded: int, features: int) -> None:
        super().__init__()
        self.distribution, self.encoder = distribution, encoder
        self.features = nn.Linear(encoded, features)
        actor = nn.Sequential(nn.Linear(features, distribution.outputs))
        self.heads = Heads(distribution, actor, nn.Sequential(nn.Linear(features, 1)))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return policy parameters and values of uint8 images."""
        images = observations.to(dtype=self.features.weight.dtype, memory_format=torch.channels_last) / 255.0
        features = torch.relu(self.features(self.encoder(images)))
        return self.heads.policy(features), self.heads.value(features)


class ImpalaNetwork(ImageNetwork):
    """IMPALA-CNN: three blocks of conv 3×3, max-pool 3/2 and two residual parts (16, 32, 32 channels), then 256."""

    rows_at_once = 64
    uniform_encoder = True
    widths: ClassVar[tuple[int, ...]] = (16, 32, 32)
    residuals: ClassVar[int] = 2

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        channels, height, width = shape
        blocks: list[nn.Module] = []
        for output in self.widths:
            blocks += [nn.Conv2d(channels, output, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
            blocks += [Residual(output) for _ in range(self.residuals)]
            channels, height, width = output, (height + 1) // 2, (width + 1) // 2
        encoder = nn.Sequential(*blocks, nn.ReLU(), nn.Flatten())
        super().__init__(distribution, encoder, channels * height * width, 256)


class SmallImpalaNetwork(ImpalaNetwork):
    """IMPALA-CNN with half of the channels and one residual part per block, for CPUs. Ours, not the paper's."""

    widths: ClassVar[tuple[int, ...]] = (8, 16, 16)
    residuals: ClassVar[int] = 1


class Bfloat16ImpalaNetwork(SmallImpalaNetwork):
    """The small IMPALA-CNN with layers computed in bfloat16; parameters and what it returns stay float32.

    Worth it on processors that multiply bfloat16 (AVX512_BF16, AMX): others convert, and are slower with it.
    """

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return policy parameters and values of uint8 images."""
        with torch.autocast(observations.device.type, torch.bfloat16):
            parameters, values = super().forward(observations)
        return parameters.float(), values.float()


class NatureNetwork(ImageNetwork):
    """The CNN of Mnih et al. (2015), as PPO uses it on Atari: conv 8/4 to 32, 4/2 to 64, 3/1 to 64, then 512."""

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        channels, height, width = shape
        if min(height, width) < 36:
            raise ValueError(f"the nature network needs images of at least 36 × 36 pixels, got {height} × {width}")
        encoder = nn.Sequential(
            nn.Conv2d(channels, 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        height, width = ((((size - 8) // 4 + 1) - 4) // 2 + 1 - 2 for size in (height, width))
        super().__init__(distribution, encoder, 64 * height * width, 512)


class MiniGridNetwork(ActorCritic):
    """Conv 2×2 to 16, max-pool 2, conv 2×2 to 32, conv 2×2 to 64, then actor and critic of 64 tanh units each.

    Observations are the raw cell numbers of the 7×7 view, not scaled.
    """

    small = True
    repeats = True

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        super().__init__()
        self.distribution = distribution
        channels, height, width = shape
        if min(height, width) < 7:
            raise ValueError(f"the minigrid network needs views of at least 7 × 7 cells, got {height} × {width}")
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 16, 2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 2), nn.ReLU(),
            nn.Conv2d(32, 64, 2), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        size = 64 * ((height - 1) // 2 - 2) * ((width - 1) // 2 - 2)
        actor = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, distribution.outputs))
        self.heads = Heads(distribution, actor, nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 1)))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return policy parameters and values of cell numbers."""
        features = self.encoder(observations.to(next(self.parameters()).dtype))
        return self.heads.policy(features), self.heads.value(features)


class MlpNetwork(ActorCritic):
    """Actor and critic of two layers of 64 tanh units each, sharing nothing."""

    small = True

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        super().__init__()
        self.distribution, self.encoder = distribution, nn.Sequential()
        size = math.prod(shape)

        def tower(outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Flatten(), nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
            )

        self.heads = Heads(distribution, tower(distribution.outputs), tower(1))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return policy parameters and values of vectors."""
        return self.policy(observations), self.values(observations)

    def values(self, observations: Tensor) -> Tensor:
        """Return the critic's values."""
        return self.heads.value(observations.to(torch.get_default_dtype()))

    def policy(self, observations: Tensor) -> Tensor:
        """Return the actor's parameters."""
        return self.heads.policy(observations.to(torch.get_default_dtype()))


NETWORKS: dict[str, Callable[[tuple[int, ...], ActionDistribution], ActorCritic]] = {
    "impala": ImpalaNetwork,
    "impala-small": SmallImpalaNetwork,
    "impala-small-bf16": Bfloat16ImpalaNetwork,
    "nature": NatureNetwork,
    "minigrid": MiniGridNetwork,
    "mlp": MlpNetwork,
}


def make_network(name: str, shape: tuple[int, ...], actions: ActionSpace, seed: int) -> ActorCritic:
    """Build a network with orthogonal weights, fixed by the seed; auto goes by the observations' shape."""
    if name == "auto":
        name = "impala" if len(shape) == 3 else "mlp"
    if name != "mlp" and len(shape) != 3:
        raise ValueError(f"the network {name!r} takes images, but observations have the shape {shape}; use mlp")
    with torch.random.fork_rng(devices=[]):  # modules draw their first weights from the global generator
        network = NETWORKS[name](shape, distribution_for(actions))
    initialize(network, torch.Generator().manual_seed(seed))
    return network


def initialize(network: ActorCritic, generator: torch.Generator) -> None:
    """Set orthogonal weights and zero biases: gain √2, but 0.01 for the policy's last layer and 1 for the value's.

    As in the reference single-file PPO for Procgen, the IMPALA encoder has no normalisation to tame orthogonal
    weights in its residual sums, and starts from uniform numbers within ±1/√fan-in.
    """
    heads = network.heads
    gains = {heads.actor[-1]: POLICY_GAIN, heads.critic[-1]: VALUE_GAIN}
    inside_heads = set(heads.modules())
    for module in network.modules():
        if not isinstance(module, nn.Conv2d | nn.Linear):
            continue
        assert module.bias is not None
        if network.uniform_encoder and module not in inside_heads:
            bound = 1 / math.sqrt(module.weight[0].numel())
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        else:
            nn.init.orthogonal_(module.weight, gains.get(module, HIDDEN_GAIN), generator=generator)
            nn.init.zeros_(module.bias)


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
        return self._fetched(actions, log_probs, values)

    def _fetched(self, actions: Tensor, log_probs: Tensor, values: Tensor) -> Decision:
        rows = actions.reshape(len(actions), -1).to(torch.float32)
        packed = torch.cat([log_probs[:, None], values[:, None], rows], 1).cpu().numpy()
        chosen = packed[:, 2].astype(np.int64) if self._discrete else packed[:, 2:]
        return Decision(chosen, packed[:, 0], packed[:, 1])
