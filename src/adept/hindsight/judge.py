"""The judge: hold the parameters before an update and let the next rollout say what the update was worth.

PyTorch is imported when a judge is made, so that `import adept` needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from adept.extras import require
from adept.hindsight.estimates import NOTHING, Estimate, critic_slope, gain, kl, slope, step_kl
from adept.hindsight.verdict import LENGTHS, Verdict

if TYPE_CHECKING:
    from torch import Tensor, nn

Taken = TypeVar("Taken")
PIECE = 2**22
"""Numbers that are moved at a time: 16 MB in float32."""
Parameters = list[tuple["nn.Parameter", "Tensor"]]
"""Parameters of a module, each with its value at some time."""
LogProbs = Callable[[], Any]
"""Returns the log-probabilities of the rollout's actions under the present parameters, one per row."""


class Weights(Protocol[Taken]):
    """Parameters of a policy that can be taken, and exchanged for others for a while."""

    def take(self) -> Taken:
        """Return a copy of the present parameters."""

    def present(self) -> AbstractContextManager[None]:
        """Leave the present parameters in place; undo whatever else changes."""

    def at(self, taken: Taken) -> AbstractContextManager[None]:
        """Put other parameters in place for a while, and restore the present ones bit for bit."""

    def along(self, start: Taken, share: float) -> AbstractContextManager[None]:
        """Put start + share·(present - start) in place for a while; share may be above 1."""


class ModuleWeights:
    """The trainable parameters of any module, whatever its optimiser, device or number type.

    Memory: one copy of the trainable parameters for each `take`, and one more while `at` or `along` last; on the host
    instead of the device with `host_copy`. Beyond that `along` needs a few pieces of `PIECE` numbers, however large
    the module is. Frozen parameters are neither copied nor moved.
    What the code inside `at` and `along` does to buffers, to modes (train or eval) and to PyTorch's generators is
    undone, and nothing inside is differentiated, so that `.grad` stays as it is.
    """

    def __init__(self, module: nn.Module, *, host_copy: bool = False) -> None:
        require("torch", "train")
        self._module, self._host_copy = module, host_copy

    @property
    def coarse(self) -> bool:
        """Whether parameters are kept in half precision, where a share of a small step is lost by rounding."""
        return any(parameter.dtype.itemsize < 4 for parameter in self._trainable() if parameter.is_floating_point())

    def take(self) -> Parameters:
        """Return the trainable parameters, each with a copy: which ones are trainable may change before it is used."""
        return [(parameter, self._copy(parameter.data)) for parameter in self._trainable()]

    def present(self) -> AbstractContextManager[None]:
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
    def at(self, taken: Parameters) -> Iterator[None]:
        """Put other parameters in place for a while, and restore the present ones bit for bit."""
        with self._restored([parameter for parameter, _ in taken]):
            for parameter, value in taken:
                parameter.data.copy_(value)
            yield

    @contextmanager
    def along(self, start: Parameters, share: float) -> Iterator[None]:
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


class Judge(Generic[Taken]):
    """Judge the last update on the rollout that came after it.

    `begin` before an update takes θ₀, `mark` after an epoch takes θ_k, both optional to repeat; `judge` on the next
    rollout, collected with the parameters present then, compares them. Cost: one forward pass of the policy over the
    rows for each set of parameters (two for the slope; θ₀ and the deployed ones for gains; one per epoch and length).
    """

    def __init__(
        self,
        weights: Weights[Taken],
        *,
        epsilon: float = 0.25,
        limit: float = 5.0,
        lengths: Sequence[float] = LENGTHS,
    ) -> None:
        self._weights, self._epsilon, self._limit, self._lengths = weights, epsilon, limit, tuple(lengths)
        self.start: Taken | None = None
        self.waypoints: dict[int, Taken] = {}

    def clear(self) -> None:
        """Forget the last update."""
        self.start = None
        self.waypoints.clear()

    def begin(self) -> None:
        """Take the parameters as those before an update."""
        self.clear()  # frees the memory before the copy
        self.start = self._weights.take()

    def mark(self, epoch: int) -> None:
        """Take the parameters as those after so many epochs of the update."""
        self.waypoints[epoch] = self._weights.take()

    def judge(
        self,
        log_probs: LogProbs,
        advantages: npt.ArrayLike,
        groups: npt.ArrayLike,
        *,
        deployed: npt.ArrayLike | None = None,
        slope_too: bool = True,
        gains_too: bool = True,
    ) -> Verdict | None:
        """Return what the last update was worth; None where `begin` was not called before.

        `deployed` are the log-probabilities under the present parameters where the rollout has them: saves a pass.
        """
        if self.start is None:
            return None
        advantages = as_numpy(advantages)
        direction, divergence = NOTHING, float("nan")
        # In half precision a step is often of one digit: of its multiples only 0, 1 and 2 are certain to be there.
        coarse = getattr(self._weights, "coarse", False)
        epsilon, lengths = (1.0, (2.0,)) if coarse else (self._epsilon, self._lengths)
        if slope_too:
            ends = (1 + epsilon, 1 - epsilon)
            longer, shorter = (self._passed(log_probs, self._weights.along(self.start, end)) for end in ends)
            direction = slope(longer, shorter, advantages, groups, epsilon)
            divergence = step_kl(longer, shorter, epsilon)
        if not gains_too:
            return Verdict(direction, rows=advantages.size, kl=divergence)
        present = self._passed(log_probs, self._weights.present()) if deployed is None else as_numpy(deployed)
        start = self._passed(log_probs, self._weights.at(self.start))

        at, along = self._weights.at, self._weights.along

        def over_start(place: AbstractContextManager[None]) -> Estimate:
            return gain(self._passed(log_probs, place), present, advantages, groups, self._limit, over=start)

        return Verdict(
            direction,
            gain(present, present, advantages, groups, self._limit, over=start),
            {epoch: over_start(at(taken)) for epoch, taken in self.waypoints.items()},
            {length: over_start(along(self.start, length)) for length in lengths},
            advantages.size,
            kl(present, start),
        )

    def judge_critic(
        self, values: LogProbs, deployed: npt.ArrayLike, errors: npt.ArrayLike, groups: npt.ArrayLike
    ) -> Estimate:
        """Return how much further the critic's part of the last update should have gone, as a share of it.

        `values` returns the values of the rows under the present parameters, `deployed` are those that the rollout was
        collected with, `errors` its returns less these: the advantages before they are normalised. Costs one pass.
        """
        if self.start is None:
            return NOTHING
        before = self._passed(values, self._weights.at(self.start))
        return critic_slope(before, as_numpy(deployed), as_numpy(errors), groups)

    def _passed(self, log_probs: LogProbs, place: AbstractContextManager[None]) -> npt.NDArray[Any]:
        with place:
            return as_numpy(log_probs())


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
