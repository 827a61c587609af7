"""Polynormer: local, then global attention, each multiplied by its input (Deng et al. 2024, arXiv:2403.01232).

Without norms and activations, and with fixed attention coefficients, a node's output is a polynomial in the input,
and every layer doubles its degree.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.models.attention import check_heads
from sstcast.models.base import Backbone
from sstcast.models.polynormer_layers import BaseLayer, GateName, GlobalLayer, LocalLayer, Mixture, ParallelLayer


class Polynormer(Backbone):
    """Polynormer, or Polynormer-r if `relu`, in one of its forms.

    - `local-to-global`: local layers, whose outputs are summed, then global layers. Local layers should be trained
      first: in the stage `local` the model ends after them.
    - `local-and-global`: `local_layers` layers, each with both attentions (appendix G).
    - `base`: `local_layers` layers of equation 4 and nothing else, for graphs of `nodes` nodes each; its weights
      depend on the numbering of nodes.

    `gate` is the function of H in local layers: that of the layer, which is none without `relu`, as in the
    authors' code (`activation`), or a sigmoid.

    If `beta` is None, it is learned as a sigmoid; otherwise it is a free parameter that starts at this value. With
    `eigenvector`, this is Polynormer-v2 (equation 19): beta is multiplied by the first non-trivial eigenvector of
    the Laplacian, whose sign is arbitrary.

    Raises SSTCastError if the heads do not share the width evenly, or `base` lacks `nodes`.
    """

    def __init__(
        self,
        width: int = 256,
        local_layers: int = 5,
        global_layers: int = 2,
        heads: int = 8,
        relu: bool = True,
        beta: float | None = None,
        dropout: float = 0.0,
        global_dropout: float = 0.0,
        pre_norm: bool = False,
        edge_dim: int = 2,
        form: Literal["local-to-global", "local-and-global", "base"] = "local-to-global",
        eigenvector: bool = False,
        nodes: int | None = None,
        gate: GateName = "activation",
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        self.width, self.form, self.eigenpairs = width, form, int(eigenvector)
        self.global_attention = two_parts = form == "local-to-global"
        self.stages = ("local",) if two_parts else ()
        self.act = nn.ReLU() if relu else nn.Identity()

        def local() -> nn.Module:
            if form == "base":
                if nodes is None:
                    raise SSTCastError("model.form: base has a weight for each pair of nodes; give model.nodes")
                return BaseLayer(width, nodes)
            mixture = Mixture(width, beta, local_layers)
            if form == "local-and-global":
                return ParallelLayer(width, heads, mixture, edge_dim)
            return LocalLayer(width, heads, self.act, mixture, dropout, pre_norm, edge_dim, gate)

        self.local_layers = nn.ModuleList(local() for _ in range(local_layers))
        self.norm = nn.LayerNorm(width) if two_parts else None
        self.global_layers = nn.ModuleList(
            GlobalLayer(width, heads, Mixture(width, beta, global_layers))
            for _ in range(global_layers if two_parts else 0)
        )
        self.out = nn.Linear(width, width) if two_parts else None  # shared by all global layers
        self.dropout, self.global_dropout = nn.Dropout(dropout), nn.Dropout(global_dropout)

    def enter(self, stage: str | None) -> None:
        """End after the local layers in the stage `local`."""
        self.global_attention = stage != "local"

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        place = graph.laplacian(1)[0].to(x) if self.eigenpairs else None
        x = self.dropout(x)
        total = torch.zeros_like(x)
        for layer in self.local_layers:
            x = layer(x, graph, place)
            if self.form == "local-and-global":
                x = self.dropout(self.act(x))
            total = total + x
        if self.norm is None or self.out is None:
            return x
        if not self.global_attention:
            return total
        x = self.norm(total)
        for layer in self.global_layers:
            x = self.global_dropout(self.act(self.out(layer(x, graph, place))))
        return x

    @torch.no_grad()
    def attention_map(self, x: Tensor, graph: Graph) -> Tensor:
        """Return the weights of the last global layer, `[graphs, heads, N, N]` (Figure 4c)."""
        seen: list[Tensor] = []
        hook = self.global_layers[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        self(x, graph)
        hook.remove()
        return self.global_layers[-1].weights(seen[0], graph)  # type: ignore[operator]
