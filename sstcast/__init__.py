"""Forecasting sea surface temperature with graph networks.

The functions below are all that a notebook needs; `docs/architecture.md` says where the rest lives. Each takes a
configuration (`load_config`) or the path of its YAML. Errors that a user can mend are `SSTCastError`s of one line.
"""

__version__ = "0.1.0"

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
