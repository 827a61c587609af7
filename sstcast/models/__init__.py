"""The models by name.

A model's options are the arguments of its class, with their types and defaults: `build_forecaster` checks given
options against them, so an option is defined only in the class. PyTorch is imported when a class is needed, so
that a list of names does not wait for it.
"""

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from sstcast.errors import SSTCastError, in_short
from sstcast.yaml_files import suggest

if TYPE_CHECKING:
    from torch import nn
    from torch_geometric.data import Data

    from sstcast.models.base import Base, ForecastModel, Home


class Entry(NamedTuple):
    """A model's class (module.Class), the options that the name implies, and a short description."""

    path: str
    fixed: dict[str, Any]
    about: str


MODELS = {
    "mlp": Entry("mlp.TileMLP", {}, "perceptron over a whole tile"),
    "mlp-pointwise": Entry("mlp.PointwiseMLP", {}, "perceptron on each node alone"),
    "tfnet": Entry("tfnet.TFNet", {}, "TF-Net, turbulent flow by convolutions (arXiv:1911.08655)"),
    "mpnn": Entry("mpnn.MPNN", {}, "message passing (arXiv:2301.11956)"),
    "mpnn-vn": Entry(
        "mpnn.MPNN", {"virtual_node": True}, "message passing with a virtual node (arXiv:2301.11956)"
    ),
    "linear-transformer": Entry(
        "transformers.LinearTransformer", {}, "linear, performer or softmax attention (arXiv:2006.16236)"
    ),
    "gps": Entry("gps.GPS", {}, "message passing beside global attention (arXiv:2205.12454)"),
    "primphormer": Entry("gps.GPS", {"attention": "primphormer"}, "GPS with primal graph attention and KSVD loss"),
    "polynormer": Entry("polynormer.Polynormer", {}, "local-to-global polynomial attention (arXiv:2403.01232)"),
    "tokengt": Entry("transformers.TokenGT", {}, "nodes and edges as tokens (arXiv:2207.02505)"),
    "lsat": Entry("kdlgt.StructureAware", {}, "structure-aware attention, kernelised (KDLGT)"),
    "sat": Entry("kdlgt.StructureAware", {"linear": False}, "structure-aware attention, full softmax (SAT)"),
    "sapdgt": Entry("kdlgt.AnchorDistance", {}, "shortest anchor path distance as a bias, kernelised (KDLGT)"),
    "spdgt": Entry("kdlgt.PathDistance", {}, "shortest path distance as a bias, full softmax (Graphormer)"),
}

# Fitted in closed form to the whole region as one tile.
LINEAR = {
    "climatology": Entry("linear.Climatology", {}, "no anomaly"),
    "trend-climatology": Entry("linear.TrendClimatology", {}, "a line through the anomalies of a cell"),
    "recent-climatology": Entry("linear.RecentClimatology", {}, "the mean anomaly of the last ten years"),
    "persistence": Entry("linear.Persistence", {}, "the last day, repeated"),
    "damped-persistence": Entry(
        "linear.DampedPersistence", {}, "the last day times one coefficient for each lead"
    ),
    "ridge": Entry("linear.Ridge", {}, "ridge regression on a cell's own history"),
    "multiscale-ridge": Entry(
        "linear.MultiscaleRidge", {}, "ridge regression on its history and on means over boxes around it"
    ),
    "local-ridge": Entry("modes.LocalRidge", {}, "multiscale ridge, corrected by place from principal components"),
    "lim": Entry(
        "modes.LinearInverseModel", {}, "linear inverse model (10.1175/1520-0442(1995)008<1999:TOGOTS>2.0.CO;2)"
    ),
}

STANDS_ON = {"linear": "multiscale-ridge", "local": "local-ridge"}  # by `base`


def build_model(name: str, *, data: "Data | None" = None, **options: Any) -> Any:
    """Build the model called `name`; `options` are the arguments of its class.

    A backbone `(x [nodes, width], graph) -> [nodes, width]` also takes an `edge_index` or PyG's `Data` as graph,
    and `batch [nodes]`, the graph of each node, with an `edge_index`.
    `data`, one of the graphs, says how many features an edge has. Raises SSTCastError for a name or an option
    that does not exist, or a value of the wrong type, and when called with other numbers of features.
    """
    from sstcast.models.base import Backbone, GraphArgument
    from sstcast.models.layers import check_options, reads_edges

    cls, fixed = _class(name)
    known = _parameters(cls)
    if data is not None and "edge_dim" in known and "edge_dim" not in options:
        options["edge_dim"] = data.num_edge_features
    checked = check_options(known.values(), fixed | options, f"model {name}")
    model = _build(cls, name, checked)
    if issubclass(cls, Backbone):
        edge_dim = checked["edge_dim"] if reads_edges(checked) else 0
        model.register_forward_pre_hook(GraphArgument(name, edge_dim), with_kwargs=True)
    return model


def default_options(name: str) -> dict[str, Any]:
    """Return the options of the model called `name`, those without a default left out.

    Raises SSTCastError for a name that does not exist.
    """
    cls, fixed = _class(name)
    return {k: p.default for k, p in _parameters(cls).items() if p.default is not p.empty} | fixed


def takes_graphs(name: str) -> bool:
    """Return whether the model called `name` accepts any graph, not only tiles of the sea."""
    from sstcast.models.base import Backbone

    return issubclass(_class(name)[0], Backbone)


def base_of(options: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the name of the base among a network's options, if given, and the options of its linear system."""
    base = options.get("base")
    if not isinstance(base, Mapping):
        return base, {}
    return str(base.get("name")), {key: value for key, value in base.items() if key != "name"}


def home(name: str, options: Mapping[str, Any]) -> "Home":
    """Return where the weights of the forecaster called `name` can be used; linear systems are fitted anew."""
    from sstcast.models.base import ForecastModel

    if base_of(options)[0] == "local":
        return "region"
    cls = _class(name)[0]
    return cls.HOME if issubclass(cls, ForecastModel) else ForecastModel.HOME


def days_before(name: str, options: dict[str, Any], history: int) -> int:
    """Return how many days before its history the forecaster called `name`, or its base, may look at."""
    from sstcast.models.lagged import LONGEST

    system = options if name in LINEAR else base_of(options)[1]
    return max(0, LONGEST - history) if system.get("memory") else 0


def build_forecaster(
    name: str, *, history: int, horizon: int, shape: tuple[int, int], shared: bool = False, **options: Any
) -> "ForecastModel":
    """Build a forecaster `(history [B, nodes, history], graph) -> [B, nodes, horizon]` for tiles of `shape`.

    A backbone gets an encoder and a head (`Forecaster`), whose other arguments are options too; a model that is
    itself a forecaster gets the sizes that its class takes. The forecaster adds the network's output to the
    forecast of its `base`: `persistence` (the last day), `linear` or `local` (a multiscale or local ridge, which
    must be fitted first), or `none`. A mapping gives the `name` of the base and the options of its linear system.
    If `shared`, the model has a share of the change, which starts at 1.
    """
    import torch

    from sstcast.models.base import Backbone, Base, Forecaster, ForecastModel, LinearSystem
    from sstcast.models.layers import check_options

    cls, fixed = _class(name)
    rows, cols = shape
    sizes = {"history": history, "horizon": horizon, "nodes": rows * cols, "rows": rows, "cols": cols}
    if issubclass(cls, LinearSystem):
        return build_model(name, **options, **_asked_for(sizes, cls))
    base, of_system = base_of(options)
    if options.pop("base", None) is None:
        base = cls.BASE if issubclass(cls, ForecastModel) else ForecastModel.BASE
    if base not in get_args(Base):
        raise SSTCastError(
            f"model.base: {base!r} is not one of {', '.join(get_args(Base))}{suggest(str(base), get_args(Base))}"
        )
    if issubclass(cls, Backbone):
        around = {key: p for key, p in _parameters(Forecaster).items() if key not in {"backbone", *sizes}}
        checked = check_options([*_parameters(cls).values(), *around.values()], fixed | options, f"model {name}")
        forecaster = {key: checked.pop(key) for key in around}
        model: ForecastModel = Forecaster(
            _build(cls, name, checked), history, horizon, nodes=sizes["nodes"], **forecaster
        )
    else:
        model = build_model(name, **options, **_asked_for(sizes, cls))
    model.set_base(cast("Base", base))
    if base in STANDS_ON:
        system = _class(STANDS_ON[base])[0]
        model.linear = build_model(STANDS_ON[base], **of_system, **_asked_for(sizes, system))
    elif of_system:
        raise SSTCastError(f"model.base: {base} has no options; write base: {base}")
    if shared:
        if model.linear is None:
            raise SSTCastError("training.cross_fit: is for networks on model.base linear or local; leave it out")
        model.share = torch.ones(horizon)
    return model


def _asked_for(sizes: dict[str, int], cls: "type[nn.Module]") -> dict[str, int]:
    return {key: sizes[key] for key in sizes.keys() & _parameters(cls).keys()}


def _build(cls: "type[nn.Module]", name: str, options: dict[str, Any]) -> Any:
    try:
        return cls(**options)
    except (ValueError, RuntimeError, ZeroDivisionError, AssertionError, MemoryError, OverflowError) as error:
        raise SSTCastError(f"model {name}: cannot be built: {in_short(error)}") from error


def _class(name: str) -> "tuple[type[nn.Module], dict[str, Any]]":
    known = MODELS | LINEAR
    if name not in known:
        raise SSTCastError(f"model.name: no model {name!r}{suggest(name, known)}; known: {', '.join(known)}")
    entry = known[name]
    module, _, class_name = entry.path.partition(".")
    return getattr(import_module(f"sstcast.models.{module}"), class_name), entry.fixed


def _parameters(cls: "type[nn.Module]") -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(cls).parameters)
