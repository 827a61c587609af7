"""Weights of a version whose equations were others are refused, not loaded into the new ones."""

from pathlib import Path
from typing import Any

import pytest

from sstcast.errors import SSTCastError
from sstcast.models import build_model
from sstcast.training.checkpoint import load_weights

CHANGED = {
    "tokengt": ({}, {"node_identifiers.weight": "identify.weight", "type_identifiers": "types"}),
    "mpnn": ({"layers": 2, "conv": "gatedgcn"}, {"convs.0.target.weight": "convs.0.gate_target.weight"}),
    "gps": ({"layers": 2}, {"layers.0.conv.target.weight": "layers.0.conv.gate_target.weight"}),
    "spdgt": ({"layers": 1}, {"bias.by_hops": "blocks.0.attention.bias"}),
}


@pytest.mark.parametrize("name", CHANGED)
def test_old_names_are_refused(name: str) -> None:
    options, renamed = CHANGED[name]
    model: Any = build_model(name, width=16, **options)
    state = {"model": {renamed.get(key, key): value for key, value in model.state_dict().items()}}
    assert set(renamed) <= set(model.state_dict())
    with pytest.raises(SSTCastError, match=r"do not fit .*; .* train again if an earlier version"):
        load_weights(model, state, Path("best.pt"))
