"""The models by name.

PyTorch is imported only when a class is needed, so that listing the names stays fast.
"""

from typing import Any, NamedTuple

MEMORY_DAYS = 365  # days up to the initial date that a system with a memory reads


class Entry(NamedTuple):
    """The path of a model's class (module.Class), the options that its name implies, and a short description."""

    path: str
    fixed: dict[str, Any]
    about: str


# A class may stand in place of its entry.
MODELS: "dict[str, Entry | type]" = {
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
    "sat": Entry(
        "kdlgt.StructureAware", {"linear": False}, "structure-aware attention, full softmax (KDLGT's SAT)"
    ),
    "sapdgt": Entry("kdlgt.AnchorDistance", {}, "shortest anchor path distance as a bias, kernelised (KDLGT)"),
    "spdgt": Entry("kdlgt.PathDistance", {}, "shortest path distance as a bias, full softmax (Graphormer)"),
}

# Linear systems, fitted in closed form to the whole region as one tile.
LINEAR: "dict[str, Entry | type]" = {
    "climatology": Entry("linear.Climatology", {}, "no anomaly"),
    "trend-climatology": Entry("linear.TrendClimatology", {}, "a linear trend in each cell"),
    "recent-climatology": Entry("linear.RecentClimatology", {}, "the mean anomaly of the last ten years"),
    "persistence": Entry("linear.Persistence", {}, "the last day, repeated"),
    "damped-persistence": Entry(
        "linear.DampedPersistence", {}, "the last day times one coefficient for each lead"
    ),
    "ridge": Entry("linear.Ridge", {}, "ridge regression on the history of the cell"),
    "multiscale-ridge": Entry(
        "linear.MultiscaleRidge", {}, "ridge regression on the cell's history and on means over boxes around it"
    ),
    "local-ridge": Entry(
        "eof_models.LocalRidge", {}, "multiscale ridge with a correction in each cell by principal components"
    ),
    "lim": Entry(
        "eof_models.LinearInverseModel",
        {},
        "linear inverse model (10.1175/1520-0442(1995)008<1999:TOGOTS>2.0.CO;2)",
    ),
}

LINEAR_BASES = {"linear": "multiscale-ridge", "local": "local-ridge"}  # the linear system behind `model.base`
