"""The models by name.

A model's options are the arguments of its class, with their types and defaults: `build_forecaster` checks
what it is given against them, so the class is the one place where an option is written down.
"""

import inspect
from importlib import import_module
from typing import Any

from pydantic import ConfigDict, create_model
from torch import nn

from sstcast.config import suggest, validate
from sstcast.errors import SSTCastError
from sstcast.models.base import Backbone, Forecaster, ForecastModel

# name -> (class, options that make the name what it is)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("mlp.TileMLP", {}),
    "mlp-pointwise": ("mlp.PointwiseMLP", {}),
    "mpnn": ("mpnn.MPNN", {}),
    "mpnn-vn": ("mpnn.MPNN", {"virtual_node": True}),
}
FORECASTERS = {"mlp"}  # not backbones: they encode the history of a tile themselves


def build_model(name: str, **options: Any) -> Any:
    """Build the model called `name`; `options` are the arguments of its class.

    Raises SSTCastError for a name or an option that does not exist, or a value of the wrong type.
    """
    if name not in MODELS:
        raise SSTCastError(f"model.name: no model {name!r}{suggest(name, MODELS)}; known: {', '.join(MODELS)}")
    path, fixed = MODELS[name]
    module, _, class_name = path.partition(".")
    cls = getattr(import_module(f"sstcast.models.{module}"), class_name)
    return cls(**_checked(name, cls, fixed | options))


def build_forecaster(name: str, *, history: int, horizon: int, nodes: int, **options: Any) -> ForecastModel:
    """Build a forecaster `(history [B, nodes, history], graph) -> [B, nodes, horizon]`.

    A backbone gets an encoder and a head (`Forecaster`); a model that is a forecaster by itself is told
    the sizes.
    """
    if name in FORECASTERS:
        options |= {"history": history, "horizon": horizon, "nodes": nodes}
    model = build_model(name, **options)
    return Forecaster(model, history, horizon) if isinstance(model, Backbone) else model


def _checked(name: str, cls: type[nn.Module], options: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default)
        for p in inspect.signature(cls).parameters.values()
    }
    schema = create_model(f"{cls.__name__}Options", __config__=ConfigDict(extra="forbid"), **fields)
    return validate(schema, options, f"model {name}").model_dump()
