"""Forecasting sea surface temperature with graph networks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from sstcast.forecasting.loaded import LoadedRun

__version__ = "0.1.0"


def load(run: "Path | str", region: str | None = None) -> "LoadedRun":
    """Load a trained run or ensemble, for instance `runs/demo`, to forecast with: `load(run).forecast(history)`.

    `region` is another one than the run's: a name in `configs/regions.yaml` or `W,E,S,N` in degrees. Raises
    SSTCastError if the run is not there or not trained, or its model cannot be used for the region.
    """
    from sstcast.forecasting.loaded import LoadedRun  # so that `import sstcast` need not wait for PyTorch

    return LoadedRun(run, region)
