"""Tables are joined along the dimensions that they have."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.names import INIT_TIME, INIT_YEAR
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import Asked
from sstcast.scores.joining import OF_FOLDS, OF_SYSTEMS, join_folds, join_systems
from sstcast.scores.kinds.kind import BLOCK
from sstcast.scores.scene import Scene
from sstcast.scores.systems import baselines
from sstcast.scores.verify import verify


def fold(first: str, dates: int, value: float, areas: bool = False) -> xr.Dataset:
    """Return a table of each rule of one fold, whose values tell how they were joined."""
    time = pd.date_range(first, periods=dates)
    tables = xr.Dataset(
        {
            "by_date": (("system", INIT_TIME, "lead"), np.full((1, dates, 2), value)),
            "maps_by_date": (("system", INIT_TIME, "lat"), np.full((1, dates, 1), value)),
            "by_block": (("system", BLOCK), np.full((1, 2), value)),
            "by_year": (("forecaster", INIT_YEAR), np.full((1, 1), value)),
            "by_cell": (("system", "lat"), np.full((1, 1), value, np.float32)),
            "sum": (("forecaster", "lead"), np.array([[value, np.nan]])),
            "number": ((), value),
            "observed_index": ((INIT_TIME,), np.arange(dates, dtype=float)),
        },
        {"system": ["some"], "forecaster": ["some"], INIT_TIME: time, INIT_YEAR: [time.year[0]]},
    )
    if areas:
        tables["of_areas"] = ("system", "area", INIT_TIME), np.zeros((1, 1, dates))
    return tables.assign_coords(fold=(INIT_TIME, time.year)).chunk()


def test_folds_are_concatenated_averaged_or_added() -> None:
    joined = join_folds([fold("2001-01-01", 2, 1.0, areas=True), fold("2002-01-01", 6, 5.0)])
    assert joined["by_date"].values[0, :, 0].tolist() == [1, 1, 5, 5, 5, 5, 5, 5]
    assert joined["fold"].values.tolist() == [2001] * 2 + [2002] * 6
    assert joined["by_block"].values.tolist() == [[1, 1, 5, 5]]
    assert joined["by_year"].sel(init_year=2002).values.tolist() == [5]
    assert joined["by_cell"].item() == (2 * 1 + 6 * 5) / 8  # weighted by the numbers of dates
    assert joined["by_cell"].dtype == np.float32
    np.testing.assert_equal(joined["sum"].values, [[6, np.nan]])  # of nothing
    assert joined["number"].item() == 6
    assert joined["maps_by_date"].values[0, :, 0].tolist() == [1, 1, 5, 5, 5, 5, 5, 5]
    assert joined["maps_by_date"].chunks is not None  # may be larger than memory
    assert joined["by_date"].chunks is None
    assert "of_areas" not in joined  # whose dimension one fold lacks


def test_a_cell_without_a_mean_in_one_fold_has_none_of_all() -> None:
    """A mean of the other folds with the weights of all would be too near 0. On land, it would be 0."""
    folds = [fold("2001-01-01", 2, np.nan), fold("2002-01-01", 6, 5.0)]
    assert np.isnan(join_folds(folds)["by_cell"].item())


def test_systems_are_joined_along_their_own_axis() -> None:
    tables = [fold("2001-01-01", 2, value) for value in (1, 2)]
    tables[1] = tables[1].assign_coords(system=["other"], forecaster=["other"])
    joined = join_systems(tables).load()
    assert joined["by_date"].sel(system="other").values.tolist() == [[2, 2], [2, 2]]
    assert joined["sum"].sel(forecaster="some")[0].item() == 1
    assert joined["number"].item() == 1  # what no system has of its own
    assert joined["observed_index"].values.tolist() == [0, 1]


def test_systems_of_other_climatologies_have_observed_means_of_their_own() -> None:
    tables = [fold("2001-01-01", 2, value) for value in (1, 2)]
    tables[1] = tables[1].assign_coords(system=["other"], forecaster=["other"])
    tables[1]["observed_index"] = tables[1]["observed_index"] + 1
    assert join_systems(tables)["observed_index"].sel(system="other").values.tolist() == [1, 2]


@pytest.mark.filterwarnings("error::RuntimeWarning:sstcast.scores.verify")
def test_every_table_is_of_systems_or_of_all_and_has_one_rule(scored: Run) -> None:
    truth = Analysis.of(scored)
    systems = {"climatology": baselines(SpreadCalibrator(truth.prepared))["climatology"]}
    tables = verify(Scene(truth, systems, Asked(events=True)))
    assert {"mse_by_date", "gaussian_crps_by_date", "event_onsets_by_date"} < set(tables.data_vars)
    for name, field in tables.data_vars.items():
        assert len({*OF_FOLDS} & {*field.dims}) <= 1, name
        assert len({*OF_SYSTEMS} & {*field.dims}) <= 1, name
