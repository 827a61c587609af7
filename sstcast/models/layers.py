"""Local layers and attentions by name, and the check of options. To add a layer, write its class and a line here.

The names are the values of `model.conv` and `model.attention`. `sstcast benchmark --model` also accepts the name
of a local layer, alone or with `-vn`.
"""

from collections.abc import Iterable, Mapping
from inspect import Parameter, signature
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, create_model
from torch import nn

from sstcast.errors import SSTCastError
from sstcast.models.attention import (
    Attention,
    DeepSets,
    GraphAttention,
    LinearAttention,
    PerformerAttention,
    SoftmaxAttention,
)
from sstcast.models.convs import GAT, GCN, GIN, GINE, SAGE, Conv, GatedGCN, MessagePassing
from sstcast.models.norms import one_of
from sstcast.models.primphormer import PrimalAttention, PrimphormerAttention
from sstcast.models.sparse_attention import BigBirdAttention, ExphormerAttention
from sstcast.storage.yaml_files import validate

CONVS: dict[str, type[Conv]] = {
    "mean": MessagePassing,
    "gin": GIN,
    "gine": GINE,
    "gcn": GCN,
    "sage": SAGE,
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


ConvName = Annotated[str, AfterValidator(lambda name: one_of(name, CONVS))]
ConvOrNone = Annotated[str, AfterValidator(lambda name: one_of(name, ["none", *CONVS]))]
AttentionName = Annotated[str, AfterValidator(lambda name: one_of(name, ["none", *ATTENTIONS]))]
NodeAttentionName = Annotated[str, AfterValidator(lambda name: one_of(name, node_attentions()))]


def layer_of(model: str) -> dict[str, Any] | None:
    """Return the options of `mpnn` if a model is called like a local layer, with `-vn` for a virtual node."""
    conv = model.removesuffix("-vn")
    return {"conv": conv, "virtual_node": conv != model} if conv in CONVS else None


def node_attentions() -> list[str]:
    """Return the names of the attentions that read only nodes, not the graph."""
    return [name for name, kind in ATTENTIONS.items() if issubclass(kind, Attention)]


def build_conv(name: str, width: int, edge_dim: int, in_width: int | None = None, **arguments: Any) -> Conv:
    """Build a local layer.

    Args:
        name: a name in `CONVS`.
        width: output channels.
        edge_dim: channels of the edges, 0 for none.
        in_width: input channels, by default `width`.
        **arguments: those for the classes that take them: `dropout` and `norm` inside the layer, `heads`, and
            whether the layer is the `last`, which need not update edges.

    Raises SSTCastError if the layer cannot change the number of channels.
    """
    if in_width == width:
        in_width = None
    if in_width is not None and "in_width" not in signature(CONVS[name]).parameters:
        raise SSTCastError(f"conv {name}: cannot map {in_width} channels to {width}; keep encoder and head")
    return _build(CONVS[name], {}, f"conv {name}", width=width, edge_dim=edge_dim, in_width=in_width, **arguments)


def build_attention(name: str, options: dict[str, Any] | None = None, **sizes: Any) -> Any:
    """Build an attention.

    Args:
        name: a name in `ATTENTIONS`.
        options: further arguments of its class.
        **sizes: arguments for the classes that take them.

    Raises SSTCastError, naming the option, if it does not exist or its value is of the wrong type.
    """
    return _build(ATTENTIONS[name], options or {}, f"attention_options of {name}", **sizes)


def _build(kind: type[nn.Module], options: dict[str, Any], where: str, **sizes: Any) -> Any:
    arguments = signature(kind).parameters
    option_parameters = [p for p in arguments.values() if p.name not in sizes] if options else []
    class_sizes = {key: sizes[key] for key in arguments if key in sizes}
    return kind(**class_sizes, **check_options(option_parameters, options, where))


def check_options(parameters: Iterable[Parameter], options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the value of each parameter, from `options` or its default.

    Raises SSTCastError, naming `where` and the option, if there is no such parameter, or if its value is missing,
    of the wrong type, too small or too large.
    """
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default) for p in parameters
    }
    schema = create_model("Options", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)
    return validate(schema, dict(options), where).model_dump()
