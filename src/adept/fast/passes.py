"""The small networks forward and backward by hand, over memory that is allocated once.

Autograd's bookkeeping and fresh memory cost several times the arithmetic of networks this small. Numbers stand here
as (features, rows): then matrix products take the weights as PyTorch keeps them, convolutions included, and whatever
follows runs along memory. A layer keeps its last input, and `backward` writes the gradients of its parameters into
their `.grad`, which must be allocated.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor, nn

from adept.config import Execution
from adept.networks import ActorCritic

# The sweeps that autograd itself makes, into given memory: the gradient where x > 0; the gradient times 1 - y².
_relu_backward = torch.ops.aten.threshold_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input

GRAIN = 8
"""Rows that are computed once, whose number varies, are filled up to a multiple of this."""


def by_hand(network: ActorCritic, execution: Execution) -> bool:
    """Return whether the passes here take a network: a small one, in float32, on the CPU, unless the user objects."""
    exact = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in network.parameters())
    return execution.fast and network.small and exact


def pass_where_positive(gradient: Tensor, x: Tensor, out: Tensor) -> None:
    """Write the gradient where x > 0, and 0 elsewhere."""
    _relu_backward(gradient, x, 0, grad_input=out)


def parameters_of(layer: nn.Linear | nn.Conv2d) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return weight and bias as (outputs, inputs) and (outputs, 1), and their gradients, where they are allocated."""
    weight, bias = layer.weight, layer.bias
    assert bias is not None
    gradient = None if weight.grad is None else weight.grad.flatten(1)
    return weight.detach().flatten(1), bias.detach().unsqueeze(1), gradient, bias.grad


class Dense:
    """y = W·x + b; a convolution of patches is the same, its columns being patches."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, columns: int, *, inner: bool = True) -> None:
        self.weight, self.bias, self.weight_gradient, self.bias_gradient = parameters_of(layer)
        outputs, inputs = self.weight.shape
        self.outputs = torch.empty(outputs, columns)
        self.array = self.outputs.numpy()
        self.input_gradient = torch.empty(inputs, columns) if inner else None
        """None for a first layer, whose input is data."""
        self.inputs = self.outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, which stand until the next call."""
        self.inputs = x
        return torch.addmm(self.bias, self.weight, x, out=self.outputs)

    def backward(self, gradient: Tensor) -> Tensor | None:
        """Set the gradients of weight and bias; return that of the input."""
        torch.mm(gradient, self.inputs.T, out=self.weight_gradient)
        torch.sum(gradient, 1, out=self.bias_gradient)
        return None if self.input_gradient is None else torch.mm(self.weight.T, gradient, out=self.input_gradient)


class Tower:
    """Dense layers with tanh between them: an actor's or a critic's own part of a network."""

    def __init__(self, layers: nn.Sequential, rows: int, *, inner: bool) -> None:
        linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        self.layers = [Dense(layer, rows, inner=inner or index > 0) for index, layer in enumerate(linear)]

    def forward(self, x: Tensor) -> Tensor:
        """Return the last layer's outputs."""
        for layer in self.layers[:-1]:
            x = layer.forward(x)
            np.tanh(layer.array, out=layer.array)  # a tenth of the time of PyTorch's
        return self.layers[-1].forward(x)

    def backward(self, gradient: Tensor) -> Tensor | None:
        """Set the gradients of all parameters; return that of the input."""
        for layer in self.layers[:0:-1]:
            below = layer.backward(gradient)
            assert below is not None
            _tanh_backward(below, layer.inputs, grad_input=below)
            gradient = below
        return self.layers[0].backward(gradient)


class Convolution:
    """relu of a 2×2 convolution, images being (channels · cells, rows)."""

    def __init__(self, layer: nn.Conv2d, rows: int, size: tuple[int, int]) -> None:
        (height, width), channels = size, layer.in_channels
        self.size = (height - 1, width - 1)
        places = self.size[0] * self.size[1]
        self.cells = torch.from_numpy(patches(channels, size).flatten())
        self.dense = Dense(layer, places * rows)
        self.patches = torch.empty(len(self.cells), rows)
        self.columns = self.patches.view(-1, places * rows)
        self.input_gradient = torch.empty(channels * height * width, rows)
        self.gradient = torch.empty(layer.out_channels, places * rows)

    def forward(self, x: Tensor) -> Tensor:
        """Return the images of outputs."""
        torch.index_select(x, 0, self.cells, out=self.patches)
        outputs = self.dense.forward(self.columns).relu_()
        return outputs.view(-1, x.shape[1])

    def backward(self, gradient: Tensor) -> Tensor:
        """Set the gradients of weight and bias; return that of the input."""
        pass_where_positive(gradient.view_as(self.gradient), self.dense.outputs, self.gradient)
        by_patch = self.dense.backward(self.gradient)
        assert by_patch is not None
        return self.input_gradient.zero_().index_add_(0, self.cells, by_patch.view_as(self.patches))


def patches(channels: int, size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Return the cell of (channels · height · width) under each of 2×2 places of a kernel, by channel and position."""
    cells = np.arange(channels * size[0] * size[1]).reshape(channels, *size)
    return sliding_window_view(cells, (2, 2), (1, 2)).transpose(0, 3, 4, 1, 2)


class PooledConvolution:
    """relu and 2×2 max-pool of a 2×2 convolution of data, images being (channels · cells, rows).

    The patches of the four places under a pooling window are laid out as four slabs, so that pooling is a maximum of
    whole slabs: of two pairs of them, then of the two winners. Since relu and the bias keep the order of numbers,
    both come after the maximum, on a quarter of the numbers.
    """

    def __init__(self, layer: nn.Conv2d, rows: int, size: tuple[int, int]) -> None:
        channels, outputs = layer.in_channels, layer.out_channels
        self.size = height, width = (size[0] - 1) // 2, (size[1] - 1) // 2
        windows = height * width
        # By channel and place under the kernel, then by place under the window (axes 4 and 6), then by window.
        cells = patches(channels, size)[..., : 2 * height, : 2 * width].reshape(channels, 2, 2, height, 2, width, 2)
        self.cells = torch.from_numpy(cells.transpose(0, 1, 2, 4, 6, 3, 5).flatten())
        self.weight, self.bias, self.weight_gradient, self.bias_gradient = parameters_of(layer)
        self.patches = torch.empty(len(self.cells), rows)
        self.columns = self.patches.view(-1, 4 * windows * rows)
        self.slabs = torch.empty(outputs, 4, windows * rows)
        self.winners = torch.empty(outputs, 2, windows * rows)
        self.pairs, self.pair = (self.slabs[:, :2], self.slabs[:, 2:]), self.winners.unbind(1)
        self.pooled = torch.empty(outputs, windows * rows)

    def forward(self, x: Tensor) -> Tensor:
        """Return the pooled images."""
        torch.index_select(x, 0, self.cells, out=self.patches)
        torch.mm(self.weight, self.columns, out=self.slabs.flatten(1))
        torch.maximum(*self.pairs, out=self.winners)
        torch.maximum(*self.pair, out=self.pooled).add_(self.bias).relu_()
        return self.pooled.view(-1, x.shape[1])

    def backward(self, gradient: Tensor) -> None:
        """Set the gradients of weight and bias; under a window, the place that won takes all of the gradient.

        Gradients overwrite the numbers they belong to: this is the largest layer, and memory that fits the
        processor's cache is worth more here than anywhere else.
        """
        gradient = gradient.view_as(self.pooled)
        pass_where_positive(gradient, self.pooled, gradient)
        torch.sum(gradient, 1, out=self.bias_gradient)
        _share(gradient, *self.pair)
        _share(self.winners, *self.pairs)
        torch.mm(self.slabs.flatten(1), self.columns.T, out=self.weight_gradient)


def _share(gradient: Tensor, one: Tensor, other: Tensor) -> None:
    """Replace two sides of a maximum by their gradients: all of it goes to the larger one."""
    pass_where_positive(gradient, one.sub_(other), one)
    torch.sub(gradient, one, out=other)


class NetworkPass:
    """Convolutions, the first one pooled, or none; then the towers of actor and critic, for so many rows."""

    def __init__(self, network: ActorCritic, shape: tuple[int, ...], rows: int) -> None:
        layers = [layer for layer in network.encoder if isinstance(layer, nn.Conv2d)]
        self._convolutions: list[PooledConvolution | Convolution] = []
        size = shape[1:]
        for layer in layers:
            kind = Convolution if self._convolutions else PooledConvolution
            self._convolutions.append(kind(layer, rows, (size[0], size[1])))
            size = self._convolutions[-1].size
        self._image = torch.empty(math.prod(shape), rows) if layers else None
        towers = (network.heads.actor, network.heads.critic)
        self._actor, self._critic = (Tower(each, rows, inner=bool(layers)) for each in towers)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last layers' outputs for (rows, …): the actor's (outputs, rows) and the critic's (1, rows)."""
        x = rows.T if self._image is None else self._image.copy_(rows.T)
        for layer in self._convolutions:
            x = layer.forward(x)
        return self._actor.forward(x), self._critic.forward(x)

    def backward(self, actor: Tensor, critic: Tensor) -> None:
        """Set the gradients of all parameters but a Gaussian's deviation from those of the outputs."""
        gradient, from_critic = self._actor.backward(actor), self._critic.backward(critic)
        if gradient is not None and from_critic is not None:
            gradient.add_(from_critic)
        for layer in reversed(self._convolutions):
            assert gradient is not None
            gradient = layer.backward(gradient)


class Passes:
    """Passes of a network by their number of rows, over memory that is allocated once for each."""

    def __init__(self, network: ActorCritic) -> None:
        self._network = network
        self._passes: dict[int, NetworkPass] = {}
        self._shape: tuple[int, ...] = ()
        self._rows = 0

    def prepare(self, observations: Tensor) -> Tensor:
        """Return what `forward` takes rows of, made once from the observations of a rollout."""
        self._shape = tuple(observations.shape[1:])
        rows = observations.flatten(1)
        return rows if len(self._network.encoder) else rows.to(torch.get_default_dtype())

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last layers' outputs: the actor's (outputs, rows) and the critic's (1, rows)."""
        size = self._rows = rows.shape[0]  # len() of a tensor is slow
        if size not in self._passes:
            self._passes[size] = NetworkPass(self._network, self._shape, size)
        return self._passes[size].forward(rows)

    def backward(self, actor: Tensor, critic: Tensor) -> None:
        """Set the gradients of all parameters but a Gaussian's deviation from those of the last outputs."""
        self._passes[self._rows].backward(actor, critic)


class DistinctPasses(Passes):
    """Run the distinct observations of some rows through a network, and spread its outputs over the rows.

    The views of a small grid world repeat: of the 2048 rows of a first rollout in DoorKey-6x6 some 200 are distinct.
    What a network gives depends on the observation alone, and the gradients of equal rows add up at its output.
    """

    def __init__(self, network: ActorCritic) -> None:
        super().__init__(network)
        self._table = self._inverse = torch.empty(0)

    def prepare(self, observations: Tensor) -> Tensor:
        """Take distinct observations, in the order of their first appearance; return each row's number among them."""
        numbers: dict[bytes, int] = {}
        numbered = np.array([numbers.setdefault(key, len(numbers)) for key in row_bytes(observations)])
        first = np.unique(numbered, return_index=True)[1]
        self._table = super().prepare(observations).index_select(0, torch.from_numpy(first))
        return torch.from_numpy(numbered)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs of rows given by number."""
        numbers = rows.numpy()
        counts = np.bincount(numbers, minlength=len(self._table))
        distinct = np.flatnonzero(counts)
        counts[distinct] = np.arange(len(distinct))
        self._inverse = torch.from_numpy(counts[numbers])
        outputs, values = super().forward(self._table.index_select(0, filled(distinct)))
        return outputs.index_select(1, self._inverse), values.index_select(1, self._inverse)

    def backward(self, actor: Tensor, critic: Tensor) -> None:
        """Add up the gradients of equal rows, and set those of all layers."""
        sums = (torch.zeros(len(each), self._rows).index_add_(1, self._inverse, each) for each in (actor, critic))
        super().backward(*sums)


def row_bytes(rows: Tensor) -> list[bytes]:
    """Return each row as bytes."""
    array = rows.numpy().reshape(len(rows), -1)
    found: list[bytes] = array.view(f"V{array.itemsize * array.shape[1]}").ravel().tolist()
    return found


def filled(numbers: npt.NDArray[np.int64]) -> Tensor:
    """Return numbers of rows, filled up to a multiple of `GRAIN` with zeros, so that few sizes of passes are needed."""
    found = np.zeros(-(-len(numbers) // GRAIN) * GRAIN, np.int64)
    found[: len(numbers)] = numbers
    return torch.from_numpy(found)
