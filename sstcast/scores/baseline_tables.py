"""The baselines of an ocean, fitted and verified once: tables in a file that evaluations or a hindcast join."""

import datetime as dt
from pathlib import Path
from typing import Any

import xarray as xr

from sstcast._version import __version__
from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import Asked
from sstcast.scores.scene import Scene
from sstcast.scores.score_files import recipe_of_scores
from sstcast.scores.scored_days import digest_of_scored, scored_days
from sstcast.scores.systems import baselines
from sstcast.scores.verify import verify
from sstcast.storage.cf import describe, references

Recipe = dict[str, Any]


def tables_of_run(truth: Analysis, days: SpreadCalibrator, asked: Asked) -> xr.Dataset:
    """Return the tables of the baselines for the test days of a run (see `verified_baselines`).

    Runs of one ocean and of the same splits share them, in a file beside the prepared stores.

    Args:
        truth: the initial dates and the observations.
        days: the validation days.
        asked: what is also verified.
    """
    recipe = recipe_of_tables(truth, asked)
    return verified_baselines(truth, days, asked, truth.prepared.baselines, recipe, tells=False)


def recipe_of_tables(truth: Analysis, asked: Asked) -> Recipe:
    """Return all that the tables of `tables_of_run` depend on."""
    data = truth.data
    return recipe_of_scores(data) | {
        "sstcast": __version__,
        "days": truth.prepared.record().cube,  # which tell the statistics
        **digest_of_scored(truth.prepared),
        # Not the predictors, which no baseline reads, nor the name of a region.
        "data": data.model_dump(mode="json", exclude={"directory", "source", "predictors", "region"}),
        "region": data.box.model_dump(mode="json"),
        **asked.recipe_of_fold,
    }


def verified_baselines(
    truth: Analysis,
    days: SpreadCalibrator,
    asked: Asked,
    path: Path,
    recipe: Recipe,
    tells: bool = True,
) -> xr.Dataset:
    """Return the tables of the baselines lazily, and write them to `path` unless they were made from the `recipe`.

    The base rate and the persistence of state are among them. In a read-only folder, nothing is written. The other
    arguments are described at `tables_of_run` and `verify`.

    Raises SSTCastError if the file is damaged, or the prepared stores are.
    """

    def make() -> xr.Dataset:
        scene = Scene(truth, baselines(days), asked)
        tables = verify(scene, "baselines", tells=tells)
        return described_tables(tables, truth)

    tables = truth.prepared.kept(path, recipe, make, last=scored_days(truth.data)[1].astype(dt.date), lazy=True)
    return tables.drop_vars(["lat_bnds", "lon_bnds"], errors="ignore")


def described_tables(tables: xr.Dataset, truth: Analysis) -> xr.Dataset:
    """Describe the tables of `verify` for a file."""
    source = truth.cube.attrs["source"]
    return describe(
        tables,
        title="Statistics of one fold of a hindcast",
        summary="Errors and probabilistic scores by date and lead, averaged by area; means over dates by cell; "
        "squared errors by cell, date and lead week; Brier scores and case counts of heatwave probabilities",
        source=source,
        history=f"sstcast {__version__} hindcast",
        **references(source, truth.data.protocol),
    )
