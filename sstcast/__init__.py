"""Forecasting sea surface temperature with graph networks.

A notebook needs only the functions below, and the commands of `sstcast` call them with the same arguments.
`docs/architecture.md` describes the rest of the package.
"""

import os

if "OMP_WAIT_POLICY" not in os.environ:
    # libgomp's idle threads spin by default, so training beside a busy core took 1.6 times as long (perf/log.md).
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from sstcast._version import __version__ as __version__
from sstcast.api.arguments import Result
from sstcast.api.benchmarks import benchmark, datasets
from sstcast.api.data import as_forecasts, fetch, init, load_config, open, prepare, status, windows
from sstcast.api.heatwaves import heatwaves
from sstcast.api.papers import table, table5
from sstcast.api.results import evaluate, hindcast, leaderboard, map, page, report, score
from sstcast.api.runs import build_forecaster, combine, forecast, load, train, update
from sstcast.errors import SSTCastError

__all__ = [
    "Result",
    "SSTCastError",
    "as_forecasts",
    "benchmark",
    "build_forecaster",
    "combine",
    "datasets",
    "evaluate",
    "fetch",
    "forecast",
    "heatwaves",
    "hindcast",
    "init",
    "leaderboard",
    "load",
    "load_config",
    "map",
    "open",
    "page",
    "prepare",
    "report",
    "score",
    "status",
    "table",
    "table5",
    "train",
    "update",
    "windows",
]
