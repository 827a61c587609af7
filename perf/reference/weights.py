"""Bring sstcast's weights over."""

from torch import nn
from torch_geometric.nn import GATConv

GAT = {
    "linear": "lin",
    "edge": "lin_edge",
    "attend_source": "att_src",
    "attend_target": "att_dst",
    "attend_edge": "att_edge",
}


def copy_weights(ours: nn.Module, theirs: nn.Module) -> None:
    """Give `theirs` the weights of `ours`; raises RuntimeError if one is missing or has no counterpart."""
    gats = {name for name, module in theirs.named_modules() if isinstance(module, GATConv)}
    shapes = {key: value.shape for key, value in theirs.state_dict().items()}
    state = {}
    for key, value in ours.state_dict().items():
        parts = key.split(".")
        for depth, part in enumerate(parts):
            if ".".join(parts[:depth]) in gats:
                parts[depth] = GAT.get(part, part)
        name = ".".join(parts)
        state[name] = value.reshape(shapes.get(name, value.shape))
    theirs.load_state_dict(state)
