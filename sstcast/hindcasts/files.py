"""The files of a hindcast."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sstcast.errors import SSTCastError
from sstcast.scores.saved import read_sealed

RECIPE = "recipe"  # the attribute, or key, that says what a file was made of
LAYOUT = 3  # of all that is written here


@dataclass(frozen=True)
class Hindcast:
    """The paths of a hindcast.

    hindcast.json    scores of all systems
    hindcast.nc      errors by date, lead week and cell, and what is significant
    hindcast.csv     the scores as a table
    report.html      all of it on one page
    baselines/       errors of the baselines, one file for each fold and data
    SYSTEM/hindcast.zarr     forecasts of all folds
    SYSTEM/fold-YEAR/        a run or an ensemble, and its errors in hindcast.nc
    """

    folder: Path

    @property
    def metrics(self) -> Path:
        """Scores."""
        return self.folder / "hindcast.json"

    @property
    def tables(self) -> Path:
        """Errors that scores, figures and maps follow from."""
        return self.folder / "hindcast.nc"

    @property
    def csv(self) -> Path:
        """Scores as a table."""
        return self.folder / "hindcast.csv"

    @property
    def report(self) -> Path:
        """The page that shows it all."""
        return self.folder / "report.html"

    def forecasts(self, system: str) -> Path:
        """Forecasts of a system, of all folds."""
        return self.folder / system / "hindcast.zarr"


def open_hindcast(hindcast: Hindcast) -> dict[str, Any]:
    """Return the scores of a finished hindcast; raise SSTCastError if there are none that can be read."""
    metrics = read_sealed(hindcast.metrics, hindcast.tables)
    if metrics is None or metrics[RECIPE]["layout"] != LAYOUT:
        raise SSTCastError(
            f"{hindcast.metrics}: absent, damaged or of an earlier version; run the same `sstcast hindcast` again"
        )
    return metrics
