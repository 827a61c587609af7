"""Norms and activations by name, the values of `model.norm` and `model.activation`.

A norm is called as `norm(x, mask)` with node features and `graph.mask`. To add one, write its class and a line in
`NORMS`.
"""

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import AfterValidator
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.storage.yaml_files import suggest


def one_of(name: str, choices: Iterable[str]) -> str:
    """Return the name if it is known. Raises ValueError, with a similar name, if it is not."""
    if name not in (names := list(choices)):
        raise ValueError(f"no {name!r}{suggest(name, names)}; known: {', '.join(names)}")
    return name


def widen(x: Tensor) -> Tensor:
    """Convert half to single precision, which sums over many nodes need."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class BatchNorm(nn.BatchNorm1d):
    """BatchNorm over the real nodes of all graphs in a batch (Ioffe & Szegedy 2015, arXiv:1502.03167).

    Masked nodes (land, virtual nodes) do not count in the statistics that normalise them. Training with a single
    node uses the running statistics, because one node has no variance. In training, each device normalises its own
    part of a batch, as in torch.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalise `x [nodes, width]` or `[B, N, width]`, with a `mask` that expands to `[nodes]` or `[B, N]`."""
        if not self.training or (mask is None and len(x) < 2):
            state = self.running_mean, self.running_var, self.weight, self.bias
            return F.batch_norm(x.flatten(0, -2), *state, eps=self.eps).view(x.shape)
        return super().forward(x) if mask is None else self._masked(x, mask)

    def _masked(self, x: Tensor, mask: Tensor) -> Tensor:
        """Normalise in training. Masked sums keep the shapes fixed, which a compiler needs."""
        absent, nodes = ~mask.unsqueeze(-1), tuple(range(x.ndim - 1))
        count = mask.expand(x.shape[:-1]).sum()
        enough_nodes, divisor = count > 1, count.clamp(min=1)
        with torch.autocast(x.device.type, enabled=False):
            y = widen(x)
            mean = y.masked_fill(absent, 0).sum(nodes) / divisor
            mean = torch.where(enough_nodes, mean, self.running_mean)
            y = y - mean
            variance = y.masked_fill(absent, 0).square().sum(nodes) / divisor
            with torch.no_grad():
                unbiased = variance * (divisor / (count - 1).clamp(min=1))
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(torch.where(enough_nodes, unbiased, self.running_var), self.momentum)
                self.num_batches_tracked.add_(1)
            variance = torch.where(enough_nodes, variance, self.running_var)
            y = y * (variance + self.eps).rsqrt() * self.weight + self.bias
        return y.to(x.dtype)


class LayerNorm(nn.LayerNorm):
    """LayerNorm over the channels of each node (Ba et al. 2016, arXiv:1607.06450)."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalise `x [..., width]`. Padding needs no `mask`, because each node is normalised by itself."""
        return super().forward(x)


class NoNorm(nn.Identity):
    """The identity, called like a norm."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return `x` unchanged."""
        return x


NORMS: dict[str, type[nn.Module]] = {"batch": BatchNorm, "layer": LayerNorm, "none": NoNorm}
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "none": nn.Identity,
}
NormName = Annotated[str, AfterValidator(lambda name: one_of(name, NORMS))]
ActivationName = Annotated[str, AfterValidator(lambda name: one_of(name, ACTIVATIONS))]
