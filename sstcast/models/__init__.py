"""The models, a file per family. They are listed in `registry` and built by `factory`."""

from sstcast.models.factory import (
    base_of,
    build_forecaster,
    build_model,
    days_before,
    default_options,
    reads_edges,
    takes_graphs,
    transfer_of,
)
from sstcast.models.registry import LINEAR, LINEAR_BASES, MODELS, Entry

__all__ = [
    "LINEAR",
    "LINEAR_BASES",
    "MODELS",
    "Entry",
    "base_of",
    "build_forecaster",
    "build_model",
    "days_before",
]
__all__ += ["default_options", "reads_edges", "takes_graphs", "transfer_of"]
