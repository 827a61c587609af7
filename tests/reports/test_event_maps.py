"""Maps of a record's events against loops over its table of events, and what is refused or left out."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from refusals import refused
from scipy.stats import false_discovery_control, kendalltau, theilslopes
from small_ocean import make_sst

import sstcast
from sstcast.figures import record_events
from sstcast.figures.record_events import EventMap, RecordMaps
from sstcast.storage.artefacts import read_recipe

WHOLE = range(2002, 2015)  # the years of the record that it has from end to end
DRAWN = ["events-days.png", "events-category.png", "events-trend.png"]


@pytest.fixture(scope="module")
def record() -> xr.Dataset:
    """Days from June 2001 to March 2015, of cells that warm, that freeze, that alternate, and of land."""
    whole = make_sst(15, rows=3, cols=5).sel(time=slice("2001-06-01", "2015-03-01"))
    sst, day = whole["sst"].copy(), np.arange(whole.sizes["time"])
    sst[:, 0, 4] = -1.8
    sst[:, 1, 4] = 15 + (-1.0) ** day  # no five days in a row are above any threshold
    sst[:, 2] += (day / day.size)[:, None] ** 2 * np.arange(5)
    return whole.assign(sst=sst)


@pytest.fixture(scope="module")
def file(record: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sstcast.heatwaves(record, out=tmp_path_factory.mktemp("events") / "events.nc").path


def maps_of(events: xr.Dataset) -> dict[str, EventMap]:
    return {drawing.name: drawing for drawing in RecordMaps.of(events, Path("events.nc")).maps}


def test_the_numbers_are_those_of_loops_over_events(file: Path) -> None:
    with xr.open_dataset(file) as opened:
        events = opened.load()
    assert events["known_days"].values[[0, 3, -1]].tolist() == [214, 366, 60]
    fields = maps_of(events)
    days, highest, p_values = {}, Counter[tuple[float, float]](), {}
    cell = np.repeat(np.arange(events.sizes["cell"]), events["cell_events"])
    for number, (lat, lon) in enumerate(zip(events["cell_lat"].values, events["cell_lon"].values, strict=True)):
        by_year = Counter[int]()
        for event in np.flatnonzero(cell == number):
            first, last = (events[f"event_{end}"].values[event] for end in ("start", "end"))
            by_year.update(pd.date_range(first, last).year)
            highest[lat, lon] = max(highest[lat, lon], int(events["event_category"][event]))
        days[lat, lon] = [by_year[year] for year in WHOLE]
    frozen, alternating = ((float(events["lat"][row]), float(events["lon"][4])) for row in (0, 1))
    del days[frozen]
    assert sum(days[alternating]) == 0
    for place, of in days.items():
        mean, category, slope = (
            float(fields[name].field.sel(lat=place[0], lon=place[1])) for name in ("days", "category", "trend")
        )
        assert mean == pytest.approx(np.mean(of))
        assert category == highest[place]
        assert slope == pytest.approx(10 * theilslopes(of, WHOLE)[0])
        p_values[place] = kendalltau(WHOLE, of, method="asymptotic").pvalue
    for drawing in fields.values():
        assert int(drawing.field.notnull().sum()) == len(days) == 3 * 5 - 6 - 1
    known = {place: p for place, p in p_values.items() if np.isfinite(p)}
    assert len(known) == len(days) - 1
    adjusted = dict(zip(known, false_discovery_control([*known.values()]), strict=True))
    hatched = fields["trend"].hatched
    assert hatched is not None
    for lat, lon in days:
        found = adjusted.get((lat, lon), 1) <= 0.1 and fields["trend"].field.sel(lat=lat, lon=lon) != 0
        assert bool(hatched.sel(lat=lat, lon=lon)) == (not found)
    assert 0 < int(hatched.sum()) < len(days)


def figure_of(field: xr.DataArray, drawn: list[tuple[int, ...]]) -> Figure:
    drawn.append(field.shape)
    return Figure(figsize=(1, 1))


def test_a_command_draws_them_beside_the_file(
    file: Path, tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = tmp_path / "events.nc"
    events.write_bytes(file.read_bytes())
    code, said, _ = command("map", events)
    assert code == 0
    assert said.splitlines() == [
        f"{events}: left out: 2 incomplete years",
        *(str(tmp_path / name) for name in DRAWN),
    ]
    assert command("map", events)[1].endswith("nothing to do\n")
    (tmp_path / DRAWN[0]).write_bytes(b"mine")
    with refused(DRAWN[0], "exists and is not a file of sstcast"):
        sstcast.map(events)
    (tmp_path / DRAWN[0]).unlink()
    with xr.open_dataset(file) as opened:
        opened.load().assign_attrs(baseline="detrended, 2002-01-01..2014-12-31").to_netcdf(events)
    drawn: list[tuple[int, ...]] = []
    monkeypatch.setattr(record_events, "draw_hatched", lambda panels, *_, **__: figure_of(panels[""], drawn))
    code, said, _ = command("map", events, "--region", "170.75,171.25,-10.6,-10")
    assert drawn == [(2, 2)] * 2
    assert f"{events}: left out: the trend, which the detrended baseline has removed" in said
    assert not (tmp_path / DRAWN[2]).exists()  # which would be of the earlier events
    assert read_recipe(tmp_path / DRAWN[1])["region"] == "170.75,171.25,-10.6,-10"
    with refused("--region 0,10,0,10", "fewer than two rows or columns"):
        sstcast.map(events, region="0,10,0,10")


def test_a_title_says_which_events(file: Path, record: xr.Dataset, tmp_path: Path) -> None:
    with xr.open_dataset(file) as opened:
        events = opened.load()
    assert maps_of(events)["trend"].title == "Trend of the days a year in marine heatwaves, 2002-2014"
    assert maps_of(events)["category"].title == "Highest category of marine heatwaves, 2001-2015"
    cold = sstcast.heatwaves(record, cold=True, percentile=95, out=tmp_path / "cold.nc").value
    assert maps_of(cold)["days"].title == "Days a year in marine cold spells, 2002-2014"
    assert f"Events: {cold.attrs['definition']}." in RecordMaps.of(cold, tmp_path).credit
    warm = maps_of(sstcast.heatwaves(record, above=24.5, out=tmp_path / "warm.nc").value)
    assert [*warm] == ["days", "trend"]  # which have no categories
    assert warm["days"].title == "Days a year in periods above 24.5 °C, 2002-2014"


def test_years_without_a_threshold_are_left_out(file: Path) -> None:
    with xr.open_dataset(file) as opened:
        events = opened.load()
    late = events["event_days"].where(events["year"] > 2006)
    found = RecordMaps.of(events.assign(event_days=late).assign_attrs(baseline="moving, 30 years"), file)
    assert found.left_out[1] == "5 years in which no event is defined"
    assert found.left_out[2] == "the trend, because the moving baseline follows the sea"
    assert found.maps[0].title.endswith("2007-2014")
    mean = events["event_days"].sel(year=slice(2007, 2014)).mean("year")
    xr.testing.assert_allclose(found.maps[0].field.drop_vars("year", errors="ignore"), mean)
    short = RecordMaps.of(events.sel(year=slice(2005, 2013)), file)
    assert short.left_out == ["the trend, which needs 10 whole years, not 9"]
    assert "trend" in maps_of(events.sel(year=slice(2005, 2014)))


def test_what_cannot_be_drawn_is_refused(file: Path, record: xr.Dataset, tmp_path: Path, fails: Any) -> None:
    with xr.open_dataset(file) as opened:
        events = opened.load()
    listed = ["give a run, a hindcast, the folder of a file's scores, or the .nc"]
    sst = record["sst"][-9:].rename(time="lead").expand_dims("init_time")
    sst.to_dataset(name="sst").assign_coords(lead=range(1, 10)).to_netcdf(tmp_path / "forecast.nc")
    events.drop_dims("year").to_netcdf(tmp_path / "forecast-heatwaves.nc")
    sstcast.heatwaves(record, dhw=True, out=tmp_path / "dhw.nc")
    (tmp_path / "places.csv").write_text("place,start,peak,end,duration\n")
    for name in ("forecast.nc", "forecast-heatwaves.nc", "dhw.nc", "places.csv", "forecast.zarr"):
        fails([name, *listed], "map", tmp_path / name)
    events.drop_vars("known_days").to_netcdf(tmp_path / "old.nc")
    fails(["old.nc", "make it again with `sstcast heatwaves`"], "map", tmp_path / "old.nc")
    events.isel(lat=[1]).to_netcdf(tmp_path / "row.nc")
    fails(["row.nc", "one row or column"], "map", tmp_path / "row.nc")
    fails(["none.nc", "no such file"], "map", tmp_path / "none.nc")
    few = record.sel(time=slice("2003-05-01", "2004-03-01"))
    sstcast.heatwaves(few, above=23, out=tmp_path / "few.nc")
    fails(["few.nc", "no whole year"], "map", tmp_path / "few.nc")
    assert not [*tmp_path.glob("*.png")]
