"""The fields that reports and maps show, and the files that the command `map` leaves."""

import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from logged import logged
from PIL import Image
from whole_fields import truth_of

from sstcast.errors import SSTCastError
from sstcast.figures import catalogue
from sstcast.figures.maps import select_region
from sstcast.figures.results import Results
from sstcast.reports.report import draw_maps
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.score_files import ScoreFiles


@pytest.fixture
def run(evaluated: Run, tmp_path: Path) -> Run:
    """A copy to write to."""
    return Run(Path(shutil.copytree(evaluated.folder, tmp_path / "small")))


def globe(step: float = 10.0) -> xr.Dataset:
    lat, lon = np.arange(-90 + step / 2, 90, step), np.arange(step / 2, 360, step)
    value = np.arange(lat.size * lon.size, dtype=float).reshape(lat.size, lon.size)
    return xr.Dataset({"value": (("lat", "lon"), value)}, {"lat": lat, "lon": lon})


def test_weekly_fields_against_the_forecasts_themselves(evaluated: Run) -> None:
    forecast = xr.open_zarr(evaluated.forecasts)["sst"].values.astype(float)
    truth = truth_of(Analysis.of(evaluated))["sst"].values.astype(float)
    error = forecast - truth
    weekly = Results(evaluated.folder).weekly("model")
    for week, days in enumerate((slice(0, 7), slice(7, 8))):
        rmse = np.sqrt((error[:, days] ** 2).mean((0, 1)))
        np.testing.assert_allclose(weekly["rmse"][week], rmse, rtol=1e-4)
        np.testing.assert_allclose(weekly["bias"][week], error[:, days].mean((0, 1)), atol=1e-4)
    with ScoreFiles(evaluated.folder).open() as scores:
        p_value = scores["p_fdr"].sel(reference="multiscale ridge", compared="model").values
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(weekly["hatched"], p_value > 0.1)
    assert not weekly["hatched"].values[:, :2, :3].any()  # land is not hatched


def test_cases_are_the_extremes_of_the_error(evaluated: Run) -> None:
    results = Results(evaluated.folder)
    with ScoreFiles(evaluated.folder).open() as scores:
        rmse = scores["mse_by_date"].sel(units="degC", system="model").mean("lead").values ** 0.5
    assert rmse[results.case("best")] == rmse.min()
    assert rmse[results.case("worst")] == rmse.max()
    assert np.median(rmse) == pytest.approx(rmse[results.case("median")], rel=0.01)


def test_a_case_is_the_forecast_of_its_day(evaluated: Run) -> None:
    forecast, truth = Results(evaluated.folder).fields(17)
    stored = xr.open_zarr(evaluated.forecasts).isel(init_time=17)
    np.testing.assert_array_equal(forecast["sst"], stored["sst"])
    assert forecast["init_time"] == truth["init_time"] == stored["init_time"]
    source = xr.open_dataset(evaluated.config.data.source, engine="netcdf4")["sst"]
    came = source.sel(time=truth["valid_time"].values).values
    np.testing.assert_allclose(truth["sst"], came, atol=1e-4)
    # Both anomalies are from one climatology.
    difference = forecast["sst"] - truth["sst"] - (forecast["anomaly"] - truth["anomaly"])
    np.testing.assert_allclose(difference.fillna(0), 0, atol=1e-4)


@pytest.mark.parametrize("west", [-180, 180])
def test_crop_across_the_date_line_of_a_map_that_begins_there(west: int) -> None:
    fields = globe()
    fields = fields.assign_coords(lon=(fields["lon"] + 180) % 360 - 180).sortby("lon")  # -175..175
    cut = select_region(fields, f"{west - 20},{west + 20},0,20")
    np.testing.assert_array_equal(cut["lon"] % 360, [165, 175, 185, 195])
    assert (np.diff(cut["lon"]) == 10).all()
    for lon in (165, 195):
        there = cut["value"].isel(lon=np.flatnonzero(cut["lon"] % 360 == lon)[0])
        given = fields["value"].sel(lon=(lon + 180) % 360 - 180, lat=[5, 15])
        np.testing.assert_array_equal(there, given)


def test_a_gap_in_the_middle_of_the_part_stays_a_gap() -> None:
    fields = globe().isel(lon=slice(0, 35))  # 5..345
    cut = select_region(fields, "330,20,-90,90")
    np.testing.assert_array_equal(cut["lon"], [335, 345, 355, 365, 375])
    np.testing.assert_array_equal(np.isnan(cut["value"]).all("lat"), [False, False, True, False, False])


def test_a_region_is_known_by_name() -> None:
    cut = select_region(globe(1.0), "pacific")
    assert (cut["lon"][0], cut["lon"][-1], cut["lat"][0], cut["lat"][-1]) == (180.5, 269.5, -14.5, 14.5)


def test_a_region_without_cells_is_refused(evaluated: Run) -> None:
    with pytest.raises(SSTCastError, match="--region 0,10,-12,-10: contains fewer than two"):
        draw_maps(Results(evaluated.folder, "0,10,-12,-10"))


def test_every_map_has_a_file(evaluated: Run) -> None:
    results = Results(evaluated.folder)
    names = [one.name for functions in catalogue.MAPS.values() for draw in functions for one in draw(results)]
    assert names == ["rmse", "skill", "bias", "heatwave-days", "forecast", "best", "worst"]
    (days,) = catalogue.heatwave_maps(results)
    found = re.search(r"heatwave, (\S+) to (\S+), by week, forecast from (\S+)\. ", days.caption)
    first, last, init = map(np.datetime64, found.groups())
    assert (first - init, last - init) == (1, results.metrics["horizon"])
    assert days.title.endswith(f"of heatwave, {first} to {last}")


def test_maps_are_drawn_once_a_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAPS", {"maps": [partial(catalogue.weekly_maps, shown="bias")]})
    with logged() as lines:
        files = draw_maps(Results(run.folder))
    assert {file.name for file in files} == {"bias.png", "ratio-by-lead.png"}
    assert lines == [str(file) for file in files]
    before = {file: file.read_bytes() for file in files}
    with logged() as lines:
        draw_maps(Results(run.folder))
    assert lines == [f"{run.maps}: nothing to do"]
    with logged() as lines:
        draw_maps(Results(run.folder, "170,172,-12,-10"), "Mollweide")
    gone, of_others = run.maps / "skill-gone.png", run.maps / "photo.png"
    gone.write_bytes(files[0].read_bytes())  # as of a system that was scored before
    Image.new("RGB", (1, 1)).save(of_others)
    draw_maps(Results(run.folder, "170,172,-12,-10"), "Mollweide")
    assert of_others.exists()
    assert not gone.exists()
    assert lines[-1] == str(run.maps / "ratio-by-lead.png")
    assert all(file.read_bytes() != before[file] for file in files)
