"""Forecasting sea surface temperature with graph networks.

The functions below are all that a notebook needs; `docs/architecture.md` describes the rest of the package. They
take a configuration (`load_config`) or the path of its YAML, or a run or its folder. Errors that a user can fix
are raised as `SSTCastError`, with a one-line message.
"""

import os

__version__ = "0.2.0"

if "OMP_WAIT_POLICY" not in os.environ:
    # With libgomp's long spinning, training beside a busy core took 1.6 times as long (perf/busy.py).
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from sstcast.api.data import benchmark, load_config, open, prepare, windows
from sstcast.api.runs import build_forecaster, combine, evaluate, forecast, hindcast, load, score, train
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
    "score",
    "train",
    "windows",
]
