"""Parameters of a policy, copied and exchanged for others while an update is evaluated.

PyTorch is imported when `ModuleWeights` are made, so that `import adept` needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from adept.extras import require

if TYPE_CHECKING:
    from torch import Tensor, nn

PIECE = 2**22
"""Numbers that are moved at a time: 16 MB in float32."""
Parameters = list[tuple["nn.Parameter", "Tensor"]]
"""Parameters of a module, each with its value at some time."""


class Weights(Protocol):
    """Parameters of a policy that can be copied, and exchanged for others for a while."""

    def copy(self) -> Any:
        """Return a copy of the present parameters."""

    def current(self) -> AbstractContextManager[None]:
        """Leave the present parameters in place; undo whatever else changes."""

    def at(self, copied: Any) -> AbstractContextManager[None]:
        """Put other parameters in place for a while, and restore the present ones bit for bit."""

    def interpolate(self, start: Any, share: float) -> AbstractContextManager[None]:
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
    import torch

    if first.is_contiguous() and second.is_contiguous():
        yield from zip(*(torch.split(each.view(-1), PIECE) for each in (first, second)), strict=True)
    elif first.numel() <= PIECE or first.dim() < 2:
        yield first, second
    else:
        yield from zip(first, second, strict=True)
