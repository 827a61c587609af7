"""Local layers and attentions by name. To add one, write its class and add a line here.

The names are the values of `model.conv` and `model.attention`. The name of a local layer, alone or with `-vn`, is
also a `--model` of `sstcast benchmark`.
"""

from collections.abc import Iterable
from inspect import signature
from typing import Annotated, Any

from pydantic import AfterValidator
from torch import nn

from sstcast.models.attention import (
    Attention,
    DeepSets,
    GraphAttention,
    LinearAttention,
    PerformerAttention,
    SoftmaxAttention,
)
from sstcast.models.bigbird import BigBirdAttention
from sstcast.models.convs import GAT, GCN, GIN, GINE, Conv, MessagePassing
from sstcast.models.exphormer import ExphormerAttention
from sstcast.models.gatedgcn import GatedGCN
from sstcast.models.options import check_options
from sstcast.models.primphormer import PrimalAttention, PrimphormerAttention
from sstcast.validation import suggest

CONVS: dict[str, type[Conv]] = {
    "mean": MessagePassing,
    "gin": GIN,
    "gine": GINE,
    "gcn": GCN,
    "gat": GAT,
    "gatedgcn": GatedGCN,
}
ATTENTIONS: dict[str, type[Attention | GraphAttention]] = {
    "softmax": SoftmaxAttention,
    "performer": PerformerAttention,
    "linear": LinearAttention,
    "deepsets": DeepSets,
    "bigbird": BigBirdAttention,
    "primal": PrimalAttention,
    "exphormer": ExphormerAttention,
    "primphormer": PrimphormerAttention,
}


def _one_of(name: str, known: Iterable[str]) -> str:
    if name not in (names := list(known)):
        raise ValueError(f"no {name!r}{suggest(name, names)}; known: {', '.join(names)}")
    return name


ConvName = Annotated[str, AfterValidator(lambda name: _one_of(name, CONVS))]
AttentionName = Annotated[str, AfterValidator(lambda name: _one_of(name, ["none", *ATTENTIONS]))]
NodeAttentionName = Annotated[str, AfterValidator(lambda name: _one_of(name, node_attentions()))]


def node_attentions() -> list[str]:
    """Return the names of the attentions that see only the nodes, not the graph."""
    return [name for name, kind in ATTENTIONS.items() if issubclass(kind, Attention)]


def reads_edges(conv: str) -> bool:
    """Whether the local layer called `conv` uses edge features."""
    return "edge_dim" in signature(CONVS[conv]).parameters


def build_conv(name: str, width: int, edge_dim: int, dropout: float = 0.0, last: bool = False) -> Conv:
    """Build the local layer called `name` for edges of `edge_dim` channels, 0 for none.

    `dropout` is used only by layers that have their own residual; the `last` layer need not update edges.
    """
    return _build(CONVS[name], {}, f"conv {name}", width=width, edge_dim=edge_dim, dropout=dropout, last=last)


def build_attention(name: str, options: dict[str, Any] | None = None, **sizes: Any) -> Any:
    """Build the attention called `name` with those of the `sizes` that it takes; `options` are further arguments.

    Raises SSTCastError, naming the option, if it does not exist or its value is of the wrong type.
    """
    return _build(ATTENTIONS[name], options or {}, f"attention_options of {name}", **sizes)


def _build(kind: type[nn.Module], options: dict[str, Any], where: str, **sizes: Any) -> Any:
    arguments = signature(kind).parameters
    further = [p for p in arguments.values() if p.name not in sizes] if options else []
    given = {key: sizes[key] for key in arguments if key in sizes}
    return kind(**given, **check_options(further, options, where))
