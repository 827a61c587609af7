"""Tables are joined as their kinds declare, whatever else their files hold."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.names import INIT_TIME
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import Asked
from sstcast.scores.joining import declared, join_folds, join_systems
from sstcast.scores.kinds import KINDS
from sstcast.scores.kinds.kind import FOLD, INIT_YEAR
from sstcast.scores.scene import Scene
from sstcast.scores.systems import baselines
from sstcast.scores.verify import verify


def fold(first: str, dates: int, value: float, areas: bool) -> xr.Dataset:
    """Return tables of one fold, whose values tell how they were joined."""
    time = pd.date_range(first, periods=dates)
    tables = xr.Dataset(
        {
            "mse_by_date": (("system", INIT_TIME, "lead"), np.full((1, dates, 2), value)),
            "squared_error_by_week": (("system", INIT_TIME, "week"), np.full((1, dates, 1), value)),
            "mse_by_cell": ((FOLD, "system", "week"), np.full((1, 1, 1), value)),
            "heatwave_cases_by_lead": ((FOLD, "warning", "lead"), np.full((1, 1, 2), value)),
            "heatwave_cases_by_year": (("warning", INIT_YEAR), np.full((1, 1), value)),
            "made_by_another_version": ((INIT_TIME,), np.zeros(dates)),
        },
        {
            "system": ["some"],
            "warning": ["some"],
            INIT_TIME: time,
            FOLD: [time.year[0]],
            INIT_YEAR: [time.year[0]],
        },
    )
    if areas:
        tables["area_crps_by_date"] = ("system", "area", INIT_TIME), np.zeros((1, 1, dates))
    return tables.assign_coords(fold=(INIT_TIME, time.year)).chunk()


def test_folds_are_joined_by_the_names_of_their_tables() -> None:
    joined = join_folds([fold("2001-01-01", 2, 1.0, True), fold("2002-01-01", 6, 5.0, False)])
    assert joined["mse_by_date"].values[0, :, 0].tolist() == [1, 1, 5, 5, 5, 5, 5, 5]
    assert joined["mse_by_cell"].item() == (2 * 1 + 6 * 5) / 8  # weighted by the numbers of dates
    assert joined["heatwave_cases_by_lead"].values.tolist() == [[6, 6]]
    assert joined["heatwave_cases_by_lead_by_fold"].sum("lead")[:, 0].values.tolist() == [2, 10]
    assert joined["heatwave_cases_by_year"].sel(init_year=2002).values.tolist() == [5]
    assert joined["heatwave_cases_by_year"].sizes[INIT_YEAR] == 2
    assert joined["squared_error_by_week"].chunks is not None  # may be larger than memory
    assert joined["mse_by_date"].chunks is None
    assert "area" not in joined.dims  # which one fold lacks
    assert "made_by_another_version" not in joined


def test_systems_are_joined_along_their_own_axis() -> None:
    tables = [
        fold("2001-01-01", 2, value, False).assign(observed_index=(INIT_TIME, [0.0, 1.0])) for value in (1, 2)
    ]
    tables[1] = tables[1].assign_coords(system=["other"], warning=["other"])
    joined = join_systems(tables)
    assert joined["mse_by_date"].sel(system="other").values.tolist() == [[2, 2], [2, 2]]
    assert joined["heatwave_cases_by_lead"].sel(warning="some").values.tolist() == [[1, 1]]
    assert joined["observed_index"].values.tolist() == [0, 1]


def test_tables_that_an_earlier_version_lacks_are_left_out_or_missing() -> None:
    new, old = (
        fold("2001-01-01", 2, value, False).assign(observed_index=(INIT_TIME, [0.0, 1.0])) for value in (1, 2)
    )
    old = old.drop_dims(INIT_YEAR)
    assert "heatwave_cases_by_year" not in join_folds([new, old])
    for tables in ([new, old], [old, new]):
        names = ["some", "other"]
        joined = join_systems(
            [of.assign_coords(system=[name], warning=[name]) for of, name in zip(tables, names, strict=True)]
        )
        of_year = joined["heatwave_cases_by_year"].isel(init_year=0).compute()
        assert of_year.notnull().values.tolist() == [of is new for of in tables]


def test_no_two_kinds_write_a_table_of_one_name() -> None:
    assert len(declared()) == sum(len(kind.tables()) for kind in KINDS)


@pytest.mark.filterwarnings("error::RuntimeWarning:sstcast.scores.verify")
def test_what_is_written_is_declared(scored: Run) -> None:
    truth, kinds = Analysis.of(scored), declared()
    systems = {"climatology": baselines(SpreadCalibrator(truth.prepared))["climatology"]}
    tables = verify(Scene(truth, systems, Asked(events=True)))
    assert {"mse_by_date", "gaussian_crps_by_date", "event_onsets_by_date"} < set(tables.data_vars) <= kinds.keys()
    for name, field in tables.data_vars.items():
        how = kinds[str(name)]
        over = {"dates": INIT_TIME, "years": INIT_YEAR}.get(how.over, FOLD)
        assert {INIT_TIME, INIT_YEAR, FOLD} & {*field.dims} == {over}, name
        assert {"system", "warning"} & {*field.dims} == {how.systems} - {""}, name
