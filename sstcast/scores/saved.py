"""The files of scores: `metrics.json` and `scores.nc`, alike for runs, hindcasts and forecasts of a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from sstcast import __version__
from sstcast.artefacts import RECIPE, as_text, is_made_of
from sstcast.cf import describe, references, write
from sstcast.errors import SSTCastError
from sstcast.names import BASELINES
from sstcast.runs import Run, write_json
from sstcast.scores.metrics import METRICS
from sstcast.stores import open_netcdf

LAYOUT = 9  # of metrics.json and scores.nc
SUMMARY = "Errors, distributions, heatwaves, box means and significance of forecasts and of baselines"
VERBS = {"run": "evaluate", "file": "score", "hindcast": "hindcast"}  # and the verbs that make them


@dataclass(frozen=True)
class Scored:
    """A folder that holds scores: a run's, a hindcast's, or one of the forecasts of a file."""

    folder: Path

    @property
    def metrics(self) -> Path:
        """The scores."""
        return self.folder / "metrics.json"

    @property
    def tables(self) -> Path:
        """The statistics that they follow from."""
        return self.folder / "scores.nc"

    @property
    def report(self) -> Path:
        """The page that shows it all."""
        return self.folder / "report.html"

    def known(self, recipe: dict[str, Any]) -> dict[str, Any] | None:
        """Return the scores if they were made from `recipe`, else None."""
        if is_made_of(self.metrics, recipe) and is_made_of(self.tables, recipe):
            found: dict[str, Any] = json.loads(self.metrics.read_bytes())
            return found
        return None

    def read(self) -> dict[str, Any]:
        """Return the scores; raise SSTCastError if they are absent, damaged, or of another version."""
        try:
            found: dict[str, Any] = json.loads(self.metrics.read_bytes())
            current = all(found[RECIPE][key] == value for key, value in _form().items())
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            current = False
        if not current:
            raise SSTCastError(f"{self.metrics}: absent, damaged or of another version; {self._remedy}")
        return found

    def open(self) -> xr.Dataset:
        """Open the statistics, lazily; raise SSTCastError if they are damaged."""
        return open_netcdf(self.tables, f"delete it; {self._remedy}", chunks={})

    def write(
        self, tables: xr.Dataset, metrics: dict[str, Any], recipe: dict[str, Any], protocol: str = "", **more: str
    ) -> dict[str, Any]:
        """Write statistics and scores with their recipe, and attributes of the statistics; return the scores.

        `metrics` holds `kind` and `source` among others.
        """
        described = describe(
            tables,
            summary=SUMMARY,
            source=metrics["source"],
            history=f"sstcast {__version__} {VERBS[metrics['kind']]}",
            **references(metrics["source"], protocol),
            **more,
            **{RECIPE: as_text(recipe)},
        )
        write(described, self.tables)
        written = {RECIPE: recipe, **metrics}
        write_json(self.metrics, written)
        return written

    @property
    def _remedy(self) -> str:
        if Run(self.folder).config_file.exists():
            return f"run `sstcast evaluate {self.folder}`"
        return "run the same `sstcast score` or `sstcast hindcast` again"


def recipe_of_scores() -> dict[str, Any]:
    """Return the part of a recipe that all scores share: what this version computes, and of which baselines."""
    return _form() | {"baselines": sorted(BASELINES)}


def _form() -> dict[str, Any]:
    return {"layout": LAYOUT, "metrics": sorted(METRICS)}
