"""Evaluation of an update: keep the parameters before it, and compare them on the rollout that comes after it.

PyTorch is imported when an evaluator is made, so that `import adept` needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from adept.extras import require
from adept.hindsight.estimates import Estimate, critic_slope, gain, kl, slope, step_kl
from adept.hindsight.feedback import Feedback

if TYPE_CHECKING:
    from torch import Tensor, nn

Copied = TypeVar("Copied")
GAINS_EVERY = 5
"""Updates between two whose gains are measured, unless told otherwise."""
LENGTHS = (0.5, 1.5, 2.0)
"""Lengths of the step whose gain is estimated beside that of the one taken."""
PIECE = 2**22
"""Numbers that are moved at a time: 16 MB in float32."""
Parameters = list[tuple["nn.Parameter", "Tensor"]]
"""Parameters of a module, each with its value at some time."""
LogProbs = Callable[[], Any]
"""Returns the log-probabilities of the rollout's actions under the present parameters, one per row."""


class Weights(Protocol[Copied]):
    """Parameters of a policy that can be copied, and exchanged for others for a while."""

    def copy(self) -> Copied:
        """Return a copy of the present parameters."""

    def current(self) -> AbstractContextManager[None]:
        """Leave the present parameters in place; undo whatever else changes."""

    def at(self, copied: Copied) -> AbstractContextManager[None]:
        """Put other parameters in place for a while, and restore the present ones bit for bit."""

    def interpolate(self, start: Copied, share: float) -> AbstractContextManager[None]:
        """Put start + share·(present - start) in place for a while; share may be above 1."""


class ModuleWeights:
    """The trainable parameters of any module, whatever its optimiser, device or number type.

    Memory: one copy of the trainable parameters for each `copy`, and one more while `at` or `interpolate` last; on the
    host instead of the device with `host_copy`. Beyond that `interpolate` needs a few pieces of `PIECE` numbers,
    however large the module is. Frozen parameters are neither copied nor moved.
    What the code inside `at` and `interpolate` does to buffers, to modes (train or eval) and to PyTorch's generators is
    undone, and nothing inside is differentiated, so that `.grad` stays as it is.
    """

    def __init__(self, module: nn.Module, *, host_copy: bool = False) -> None:
        require("torch", "train")
        self._module, self._host_copy = module, host_copy

    @property
    def coarse(self) -> bool:
        """Whether parameters are kept in half precision, where a share of a small step is lost by rounding."""
        return any(parameter.dtype.itemsize < 4 for parameter in self._trainable() if parameter.is_floating_point())

    def copy(self) -> Parameters:
        """Return the trainable parameters, each with a copy: which ones are trainable may change before it is used."""
        return [(parameter, self._copy(parameter.data)) for parameter in self._trainable()]

    def current(self) -> AbstractContextManager[None]:
        """Restore parameters, buffers, modes and generators at the end, also after an error."""
        return self._restored(self._trainable())

    @contextmanager
    def _restored(self, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
        """Restore these parameters, and buffers, modes and generators, at the end.

        Writing through `.data` leaves the versions of the parameters alone, so that graphs made before stay valid.
        """
        import torch

        parts = list(self._module.modules())
        buffers = [(part, dict(part._buffers), part.training) for part in parts]
        tensors = [each for _, own, _ in buffers for each in own.values() if each is not None]
        saved, kept = ([self._copy(each.data) for each in group] for group in (parameters, tensors))
        devices = {each.device for each in (*parameters, *tensors) if each.device.type == "cuda"}
        with torch.random.fork_rng(devices=list(devices)), torch.no_grad():
            try:
                yield
            finally:
                for tensor, value in zip((*parameters, *tensors), (*saved, *kept), strict=True):
                    tensor.data.copy_(value)
                for part, own, training in buffers:
                    part._buffers.update(own)
                    part.training = training

    @contextmanager
    def at(self, copied: Parameters) -> Iterator[None]:
        """Put other parameters in place for a while, and restore the present ones bit for bit."""
        with self._restored([parameter for parameter, _ in copied]):
            for parameter, value in copied:
                parameter.data.copy_(value)
            yield

    @contextmanager
    def interpolate(self, start: Parameters, share: float) -> Iterator[None]:
        """Put start + share·(present - start) in place for a while; share may be above 1."""
        import torch

        with self._restored([parameter for parameter, _ in start]):
            for parameter, value in start:
                # In float32 at least: a share of a small step is lost in half precision until the end.
                wide = torch.promote_types(parameter.dtype, torch.float32)
                for now, then in _pieces(parameter.data, value):
                    begin = then.to(now.device, wide)
                    now.copy_(begin + share * (now.to(wide) - begin))
            yield

    def _trainable(self) -> list[nn.Parameter]:
        return [parameter for parameter in self._module.parameters() if parameter.requires_grad]

    def _copy(self, values: Tensor) -> Tensor:
        # `copy=True` copies also where the tensor is on the host already.
        return values.to("cpu", copy=True) if self._host_copy else values.clone()


def _pieces(first: Tensor, second: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield views that make up two tensors of one shape, pair by pair, none of them large."""
    if first.is_contiguous() and second.is_contiguous():
        one, other = first.view(-1), second.view(-1)
        for start in range(0, one.numel(), PIECE):
            yield one[start : start + PIECE], other[start : start + PIECE]
    elif first.numel() <= PIECE or first.dim() < 2:
        yield first, second
    else:
        yield from zip(first, second, strict=True)


@dataclass(frozen=True)
class CriticRows:
    """The rows as the critic sees them, one value per row, in the units of what the critic learns from."""

    values: Callable[[], Any]
    """values of the rows under the parameters that are in place when it is called"""
    deployed: npt.ArrayLike
    """values under the parameters that collected the rows"""
    errors: npt.ArrayLike
    """returns less `deployed`: the advantages, if they are not normalised"""


@dataclass(frozen=True)
class Rows:
    """Rows of a rollout that evaluate the update before it: one value per row, in any order."""

    log_probs: LogProbs
    advantages: npt.ArrayLike
    groups: npt.ArrayLike
    """which rows depend on each other (`adept.hindsight.time_groups`)"""
    deployed: npt.ArrayLike | None = None
    """log-probabilities under the parameters that collected the rows, where the rollout has them: saves a pass"""
    explained_variance: float | None = None
    """of the rollout's returns by the critic (`explained_variance`), where there is one"""
    critic: CriticRows | None = None
    """the same rows for the critic, whose slope is then estimated as well"""

    def divergence(self) -> float:
        """Return the KL of the present policy from the one that collected the rows, which must be known."""
        assert self.deployed is not None
        return kl(as_numpy(self.deployed), as_numpy(self.log_probs()))


class Evaluator(Generic[Copied]):
    """Evaluate the last update on the rollout that came after it.

    `begin` before an update copies θ₀, `mark` after an epoch copies θ_k; `evaluate` on the next rollout, collected with
    the parameters present then, compares them. Cost: one forward pass of the policy over the rows for each set of
    parameters (two for the slope; θ₀ and the deployed ones for gains; one per epoch and length), and one of the critic.
    """

    def __init__(
        self,
        weights: Weights[Copied],
        *,
        epsilon: float = 0.25,
        limit: float = 5.0,
        lengths: Sequence[float] = LENGTHS,
    ) -> None:
        self._weights, self._epsilon, self._limit, self._lengths = weights, epsilon, limit, tuple(lengths)
        self.start: Copied | None = None
        self.marked: dict[int, Copied] = {}

    def clear(self) -> None:
        """Forget the last update."""
        self.start = None
        self.marked.clear()

    def begin(self) -> None:
        """Copy the parameters as those before an update."""
        self.clear()  # frees the memory before the copy
        self.start = self._weights.copy()

    def mark(self, epoch: int) -> None:
        """Copy the parameters as those after `epoch` epochs of the update."""
        self.marked[epoch] = self._weights.copy()

    def evaluate(self, rows: Rows, *, gains: bool = True) -> Feedback | None:
        """Return slopes and KL of the last update, and its gains if asked for; None where `begin` was not called.

        The KL is to second order, from the slope's passes, also where gains are measured: these change no other number.
        """
        start = self.start
        if start is None:
            return None
        advantages = as_numpy(rows.advantages)
        # In half precision a step is often of one digit: of its multiples only 0, 1 and 2 are certain to be there.
        coarse = getattr(self._weights, "coarse", False)
        epsilon, lengths = (1.0, (2.0,)) if coarse else (self._epsilon, self._lengths)
        at, interpolate = self._weights.at, self._weights.interpolate

        def passed(place: AbstractContextManager[None]) -> npt.NDArray[Any]:
            with place:
                return as_numpy(rows.log_probs())

        longer, shorter = passed(interpolate(start, 1 + epsilon)), passed(interpolate(start, 1 - epsilon))
        found = Feedback(
            slope=slope(longer, shorter, advantages, rows.groups, epsilon),
            kl=step_kl(longer, shorter, epsilon),
            rows=advantages.size,
        )
        if gains:
            deployed = passed(self._weights.current()) if rows.deployed is None else as_numpy(rows.deployed)
            before = passed(at(start))

            def over_start(log_probs: npt.NDArray[Any]) -> Estimate:
                return gain(log_probs, deployed, advantages, rows.groups, self._limit, over=before)

            found = replace(
                found,
                update_gain=over_start(deployed),
                gain_by_epoch={epoch: over_start(passed(at(copied))) for epoch, copied in self.marked.items()},
                gain_by_length={length: over_start(passed(interpolate(start, length))) for length in lengths},
            )
        return (
            found if rows.critic is None else replace(found, critic_slope=self._critic_slope(rows.critic, rows.groups))
        )

    def _critic_slope(self, rows: CriticRows, groups: npt.ArrayLike) -> Estimate:
        assert self.start is not None
        with self._weights.at(self.start):
            before = as_numpy(rows.values())
        return critic_slope(before, as_numpy(rows.deployed), as_numpy(rows.errors), groups)


def as_numpy(values: Any) -> npt.NDArray[Any]:
    """Return a tensor or anything like an array as a NumPy array of float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()  # not every device has float64
    return np.asarray(values, np.float64)


def explained_variance(values: Any, returns: Any) -> float | None:
    """Return 1 - Var[R - V]/Var[R], how much of the returns the critic explains; None where returns are all equal."""
    predicted, returned = as_numpy(values).ravel(), as_numpy(returns).ravel()
    spread = float(returned.var())
    return 1.0 - float((returned - predicted).var()) / spread if spread > 0 else None
