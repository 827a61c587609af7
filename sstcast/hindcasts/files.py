"""The files of a hindcast."""

from dataclasses import dataclass
from pathlib import Path

from sstcast.scores.saved import Scored


@dataclass(frozen=True)
class Hindcast(Scored):
    """The paths of a hindcast.

    metrics.json     scores of all systems
    scores.nc        statistics by date, lead week and cell, and the significance of differences
    hindcast.csv     the scores as a table
    report.html      all of it on one page
    baselines/       statistics of the baselines, one file for each fold and data
    SYSTEM/hindcast.zarr     forecasts of all folds
    SYSTEM/fold-YEAR/        a run or an ensemble, and its statistics in hindcast.nc
    """

    @property
    def csv(self) -> Path:
        """Scores as a table."""
        return self.folder / "hindcast.csv"

    def forecasts(self, system: str) -> Path:
        """Forecasts of a system, of all folds."""
        return self.folder / system / "hindcast.zarr"
