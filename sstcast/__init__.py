"""Forecasting sea surface temperature with graph networks.

The functions below are all that a notebook needs; `docs/architecture.md` describes the rest of the package. They
take a configuration (`load_config`) or the path of its YAML, or a run or its folder. Errors that a user can fix
are raised as `SSTCastError`, with a one-line message.
"""

__version__ = "0.2.0"

from sstcast.api.data import load_config, open, prepare, windows
from sstcast.api.runs import benchmark, build_forecaster, combine, evaluate, forecast, hindcast, load, train
from sstcast.errors import SSTCastError

__all__ = [
    "SSTCastError",
    "benchmark",
    "build_forecaster",
    "combine",
    "evaluate",
    "forecast",
    "hindcast",
    "load",
    "load_config",
    "open",
    "prepare",
    "train",
    "windows",
]
