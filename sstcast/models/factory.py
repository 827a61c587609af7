"""Builds models from their names and options.

The options of a model are the arguments of its class, with their types and defaults. `build_model` and
`build_forecaster` check options against them. PyTorch is imported only when a class is needed. Arguments of these
names mean the same in every class whose docstring does not redefine them:

Args:
    history: days before a forecast.
    horizon: days of a forecast.
    nodes: the number of nodes in a tile, `rows` times `cols`.
    width: channels of the layers.
    layers: the number of layers.
    heads: attention heads, which must divide `width`.
    dropout: the share of activations set to 0 in training.
    edge_dim: the number of edge features of the graphs, 0 for none.
    attention_options: further arguments of the attention's class, such as `features` of `performer`.
    memory: whether to read means over three periods of the last year (see `ridge_inputs.Inputs`).
    stencil: whether to read 3 x 3 means two and four cells to the north, south, east and west on up to five days
        (see `ridge_inputs.Inputs`).
"""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, get_args

from sstcast.errors import SSTCastError, in_short
from sstcast.log import warn_once
from sstcast.models.registry import LINEAR, LINEAR_BASES, MEMORY_DAYS, MODELS, Entry
from sstcast.storage.yaml_files import suggest

if TYPE_CHECKING:
    from torch import nn
    from torch_geometric.data import Data

    from sstcast.models.base import Base, ForecastModel, LinearSystem, Transfer

STATIC = "static"  # kind of a predictor that does not change


def build_model(name: str, *, data: "Data | None" = None, **options: Any) -> Any:
    """Build a model.

    A backbone maps `(x [nodes, width], graph)` to `[nodes, width]`. The graph may be a `Graph`, an `edge_index`
    `[2, edges]` with an optional `batch [nodes]` (the graph of each node) and `edge_attr [edges, edge_dim]`, or a
    `Data` or `Batch` of PyG.

    Args:
        name: a name in `MODELS` or `LINEAR`, or that of a local layer, which builds `mpnn` with it (`gcn-vn`:
            also with a virtual node).
        data: one of the graphs, from which the option `edge_dim`, the number of edge features, is read.
        **options: arguments of the model's class.

    Raises SSTCastError for an unknown name or option, or a value of the wrong type. The backbone itself raises it
    for graphs with another number of features.
    """
    from sstcast.models.base import Backbone, GraphArgument
    from sstcast.models.layers import check_options

    cls, fixed = _class(name)
    parameters = _parameters(cls)
    if data is not None and "edge_dim" in parameters and "edge_dim" not in options:
        options["edge_dim"] = data.num_edge_features
    checked = check_options(parameters.values(), fixed | options, f"model {name}")
    model = _build(cls, name, checked)
    if issubclass(cls, Backbone):
        hook = GraphArgument(name, checked.get("edge_dim", 0), lambda: reads_edges(name, checked))
        model.register_forward_pre_hook(hook, with_kwargs=True)
    return model


def default_options(name: str) -> dict[str, Any]:
    """Return the default options of a model. Raises SSTCastError for an unknown name."""
    cls, fixed = _class(name)
    return {k: p.default for k, p in _parameters(cls).items() if p.default is not p.empty} | fixed


def reads_edges(name: str, options: Mapping[str, Any]) -> bool:
    """Return whether a backbone with these options has weights that read edge features.

    The shape of such weights depends on the number of features. Raises SSTCastError as `build_model`.
    """
    import torch

    if "edge_dim" not in default_options(name):
        return False
    with torch.device("meta"):  # without memory
        models = [build_model(name, **{**options, "edge_dim": features}) for features in (2, 3)]
    first, second = ([weight.shape for weight in model.parameters()] for model in models)
    return first != second


def model_lines() -> Iterator[str]:
    """Yield a line for each model, and for each local layer, with its name and what it is."""
    from sstcast.models.layers import CONVS

    for name, entry in (MODELS | LINEAR).items():
        about = (inspect.getdoc(entry) or "").partition("\n")[0] if isinstance(entry, type) else entry.about
        yield f"{name:20}{about}"
    yield from ("", "local layers, as model.conv, or as a model on graphs (with -vn: and a virtual node)")
    for name, conv in CONVS.items():
        yield f"{name:20}{conv.about}"


def register(cls: type) -> str:
    """List a backbone in `MODELS` by the name of its class, and return the name.

    Raises SSTCastError if the class is not a backbone, or the name belongs to a model of sstcast.
    """
    from sstcast.models.base import Backbone

    name = cls.__name__
    if not issubclass(cls, Backbone):
        raise SSTCastError(f"model: {name} does not derive from sstcast.models.base.Backbone (docs/extending.md)")
    if isinstance(MODELS.get(name), Entry) or name in LINEAR:
        raise SSTCastError(f"model: {name} is the name of another model; give the class another one")
    MODELS[name] = cls
    return name


def takes_graphs(name: str) -> bool:
    """Return whether a model accepts any graph, not only tiles of the sea."""
    from sstcast.models.base import Backbone

    return issubclass(_class(name)[0], Backbone)


def base_of(options: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the name of the base from a network's options (None if absent), and the options of the base."""
    base = options.get("base")
    if not isinstance(base, Mapping):
        return base, {}
    return str(base.get("name")), {key: value for key, value in base.items() if key != "name"}


def transfer_of(name: str, options: Mapping[str, Any]) -> "Transfer":
    """Return where the trained weights of a forecaster can be used. Linear systems are fitted anew."""
    from sstcast.models.base import ForecastModel

    if base_of(options)[0] == "local":
        return "region"
    cls = _class(name)[0]
    return cls.TRANSFER if issubclass(cls, ForecastModel) else ForecastModel.TRANSFER


def days_before(name: str, options: dict[str, Any], history: int) -> int:
    """Return how many days before its history a forecaster, or its base, may read."""
    system = options if name in LINEAR else base_of(options)[1]
    return max(0, MEMORY_DAYS - history) if system.get("memory") else 0


def build_forecaster(
    name: str,
    *,
    history: int,
    horizon: int,
    shape: tuple[int, int],
    shared: bool = False,
    predictors: Mapping[str, str] | None = None,
    **options: Any,
) -> "ForecastModel":
    """Build a forecaster that maps `(history [B, nodes, history], graph)` to `[B, nodes, horizon]`.

    A backbone gets an encoder and a head (see `Forecaster`). A network adds its output to the forecast of its
    base.

    Args:
        name: a name in `MODELS` or `LINEAR`.
        history: days before a forecast.
        horizon: days of a forecast.
        shape: rows and columns of a tile.
        shared: whether the network has a `share` of its change, which starts at 1 (see `ForecastModel`).
        predictors: the kind of each predictor besides SST, by name.
        **options: arguments of the model's class, for a backbone also those of `Forecaster`, and `base`. This is
            `persistence` (the last day), `linear` or `local` (a multiscale or local ridge, which must be fitted
            first), `none`, or a mapping with the `name` of the base and the options of its linear system.

    Raises SSTCastError for an unknown name or option, or a value of the wrong type.
    """
    import torch

    from sstcast.models.base import Backbone, Base, Forecaster, ForecastModel, LinearSystem, values_of
    from sstcast.models.layers import check_options

    cls, fixed = _class(name)
    rows, cols = shape
    sizes = {
        "history": history,
        "horizon": horizon,
        "nodes": rows * cols,
        "rows": rows,
        "cols": cols,
        "channels": 0,
    }
    if given := sizes.keys() & options:
        raise SSTCastError(f"model.{min(given)}: follows from the data; leave it out")
    if issubclass(cls, LinearSystem):
        system = build_model(name, **options, **_asked_for(sizes, cls))
        return reading_predictors(name, system, predictors, sizes["nodes"]) if predictors else system
    base, system_options = base_of(options)
    if options.pop("base", None) is None:
        base = cls.BASE if issubclass(cls, ForecastModel) else ForecastModel.BASE
    if base not in get_args(Base):
        raise SSTCastError(
            f"model.base: {base!r} is not one of {', '.join(get_args(Base))}{suggest(str(base), get_args(Base))}"
        )
    values = {predictor: values_of(kind, history, horizon) for predictor, kind in (predictors or {}).items()}
    channels = sum(values.values()) + len(values)
    reads = sizes | {"history": history + channels, "channels": channels}
    if issubclass(cls, Backbone):
        parameters = {key: p for key, p in _parameters(Forecaster).items() if key not in {"backbone", *sizes}}
        checked = check_options(
            [*_parameters(cls).values(), *parameters.values()], fixed | options, f"model {name}"
        )
        forecaster_options = {key: checked.pop(key) for key in parameters}
        model: ForecastModel = Forecaster(
            _build(cls, name, checked), reads["history"], horizon, nodes=sizes["nodes"], **forecaster_options
        )
    else:
        model = build_model(name, **options, **_asked_for(reads, cls))
    model.reads = values
    model.set_base(cast("Base", base))
    if base in LINEAR_BASES:
        system = _class(LINEAR_BASES[base])[0]
        model.linear = build_model(LINEAR_BASES[base], **system_options, **_asked_for(sizes, system))
    elif system_options:
        raise SSTCastError(f"model.base: {base} has no options; write base: {base}")
    if shared:
        if model.linear is None:
            raise SSTCastError("training.cross_fit: needs model.base linear or local; choose one or leave it out")
        model.share = torch.ones(horizon)
    return model


def reading_predictors(
    name: str, system: "LinearSystem", predictors: Mapping[str, str], nodes: int
) -> "LinearSystem":
    """Let the linear system called `name` read predictors. Raises SSTCastError if it is no ridge."""
    from sstcast.models.linear import Ridge
    from sstcast.models.predictor_stages import WithPredictors

    if not isinstance(system, Ridge):
        ridges = [key for key in LINEAR if issubclass(_class(key)[0], Ridge)]
        raise SSTCastError(
            f"data.predictors: model {name} reads SST alone; choose {', '.join(ridges)}, or leave them out"
        )
    ignored = [key for key, kind in predictors.items() if kind == STATIC]
    if ignored:
        warn_once(f"data.predictors.{ignored[0]}: does not change, so that linear systems ignore it")
    read = {key: kind for key, kind in predictors.items() if kind != STATIC}
    return WithPredictors(system, read, nodes) if read else system


def _asked_for(sizes: dict[str, int], cls: "type[nn.Module]") -> dict[str, int]:
    return {key: sizes[key] for key in sizes.keys() & _parameters(cls).keys()}


def _build(cls: "type[nn.Module]", name: str, options: dict[str, Any]) -> Any:
    try:
        return cls(**options)
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        raise SSTCastError(f"model {name}: cannot be built: {in_short(error)}") from error


def _class(name: str) -> "tuple[type[nn.Module], dict[str, Any]]":
    registry = MODELS | LINEAR
    if name not in registry:
        from sstcast.models.layers import CONVS, layer_of

        if (options := layer_of(name)) is None:
            names = [*registry, *CONVS]
            raise SSTCastError(
                f"model.name: no model {name!r}{suggest(name, names)}; known: {', '.join(names)}; a class of your "
                "own must be added to MODELS, for commands in sstcast/models/registry.py (docs/extending.md)"
            )
        return _class("mpnn")[0], options
    entry = registry[name]
    if isinstance(entry, type):
        return entry, {}
    module, _, class_name = entry.path.partition(".")
    return getattr(import_module(f"sstcast.models.{module}"), class_name), entry.fixed


def _parameters(cls: "type[nn.Module]") -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(cls).parameters)
