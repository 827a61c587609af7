"""The places that a run keeps: which forecasts and scores have them, and what stands in the way of the copy."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
from logged import logged
from quick_drawing import draw_nothing

import sstcast
from sstcast.api.arguments import read_places
from sstcast.errors import SSTCastError
from sstcast.forecasting.places_told import lines_of_places
from sstcast.forecasting.run_places import AskedPlaces, keep_places, places_for
from sstcast.reports.update import update
from sstcast.runs import Run

DATE = "2004-03-10"
RING = [[170.75, -11.25], [172, -11.25], [172, -10.25], [170.75, -10.25], [170.75, -11.25]]


@pytest.fixture
def run(copied: Run) -> Run:
    return copied


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    path = tmp_path / "farm.csv"
    path.write_text("name,lat,lon\nfarm,-10.3,171.3\n")
    return path


@pytest.fixture
def park(tmp_path: Path) -> Path:
    path = tmp_path / "park.geojson"
    feature = {"type": "Polygon", "coordinates": [RING]}
    path.write_text(json.dumps({"type": "Feature", "properties": {"name": "park"}, "geometry": feature}))
    return path


def asked(run: Run, places: object = None) -> AskedPlaces | None:
    """Choose and keep the places of a run, as each forecast and evaluation of its own ocean does."""
    chosen = places_for(run, read_places(places))
    keep_places(run, chosen)
    return chosen


def names(forecast: xr.Dataset) -> list[str]:
    return forecast["place"].values.tolist() if "place" in forecast else []


def test_the_next_forecast_has_the_places_of_the_last_one(run: Run, farm: Path, park: Path, capsys) -> None:
    made = sstcast.forecast(run, DATE, places=[farm, park], share="20,60")
    table = made.path.with_name(f"forecast-{DATE}-places.csv")
    assert pd.read_csv(table)["place"].unique().tolist() == ["farm", "park"]
    kept = json.loads(run.places.read_text())
    assert [feature["properties"]["name"] for feature in kept["features"]] == ["farm", "park"]
    assert (kept["shares"], kept["files"]) == ([20, 60], ["farm.csv", "park.geojson"])
    state = run.places.stat()
    farm.unlink()
    with logged() as lines:
        again = sstcast.forecast(run, DATE)
    assert lines[0] == f"places of {run.folder}: 2, from farm.csv, park.geojson, {kept['date']}"
    assert not again.new
    later = sstcast.forecast(run, "2004-04-10").value
    assert (names(later), later["share"].values.tolist()) == (["farm", "park"], [20, 60])
    assert run.places.stat() == state
    assert sstcast.forecast(run, DATE, share=30).value["share"].values.tolist() == [30]
    assert json.loads(run.places.read_text())["shares"] == [30]
    assert asked(run, park).shares == (30,)
    assert json.loads(run.places.read_text())["files"] == ["park.geojson"]
    assert names(sstcast.forecast(run, DATE, places="none").value) == []
    assert not run.places.exists()
    assert not table.exists()
    assert names(sstcast.forecast(run, DATE).value) == []


def test_a_line_says_which_places_are_left_out(run: Run, farm: Path, park: Path) -> None:
    told = []
    for places in ([farm], [farm, park], [park], [park], "none"):
        with logged() as lines:
            asked(run, places)
        told.append([line.partition(": ")[2] for line in lines if " instead of " in line])
    without = [["1 place instead of 2: without farm"], [], ["0 places instead of 1: without park"]]
    assert told == [[], ["2 places instead of 1"], *without]


def test_the_command_line_takes_a_list(run: Run, farm: Path, park: Path, command, fails) -> None:
    options = ("forecast", run.folder, "--date", DATE, "--places", farm, "--places")
    code, out, err = command(*options, park)
    assert (code, err) == (0, "")
    assert f"forecast-{DATE}-places.csv: 2 places" in out
    fails(["--places none: leaves out all places"], *options, "none")
    fails([f"unexpected extra argument(s) ({park}); repeat --places before each file"], *options[:-1], park)
    copy = json.loads(run.places.read_text())
    (other := farm.with_name("other.csv")).write_text("name,lat,lon\nfarm,-10.3,171.8\n")
    fails([f"{other}: farm is another place than in {farm}"], *options, other)
    assert json.loads(run.places.read_text()) == copy


def test_only_the_copy_that_sstcast_wrote_counts(run: Run, farm: Path, park: Path, fails) -> None:
    options = ("forecast", run.folder, "--date", DATE)
    run.places.symlink_to(park)
    assert asked(run) is None
    assert run.places.is_symlink()
    asked(run, farm)
    assert (run.places.is_symlink(), json.loads(park.read_text())["properties"]["name"]) == (False, "park")
    run.places.write_text(run.places.read_text().replace("171.3", "171.4"))
    refusal = [f"{run.places}: is not the copy that sstcast wrote; rename it, and give it with --places"]
    for more in ((), ("--places", park), ("--places", "none")):
        fails(refusal, *options, *more)
    for command in ("evaluate", "update"):
        fails(refusal, command, run.folder, "--places", park)
    run.places.with_name(".places.geojson.note").unlink()
    fails(refusal, *options)
    run.places.unlink()
    os.mkfifo(run.places)
    assert asked(run) is None
    assert run.places.is_fifo()
    asked(run, run.places.with_name("..") / ".." / park.name)
    assert json.loads(run.places.read_text())["files"] == ["park.geojson"]


def test_a_forecast_that_fails_keeps_nothing(run: Run, farm: Path, park: Path) -> None:
    asked(run, farm)
    before = run.places.read_text()
    park.write_text(park.read_text().replace("172", "195"))
    for call in (sstcast.forecast, sstcast.evaluate, sstcast.update):
        with pytest.raises(SSTCastError, match=r"park: only \d+% of its area"):
            call(run, places=park)
    assert run.places.read_text() == before


def test_another_ocean_uses_the_places_of_the_run_and_keeps_none(run: Run, farm: Path, park: Path) -> None:
    asked(run, [farm, park])
    before = run.places.read_text()
    west = "170,171.5,-12,-10"
    with logged() as lines:
        elsewhere = sstcast.forecast(run, DATE, region=west).value
    assert "park: 60% of its area are in 12 ocean cells, from 170.75 to 172 degrees east" in lines
    assert names(elsewhere) == ["farm", "park"]
    with logged() as lines:
        elsewhere = sstcast.forecast(run, DATE, region="171.5,173,-12,-10", out=run.folder / "e.nc").value
    assert "farm: lies outside the region, 171.5,173,-12,-10, so it is left out" in lines
    assert any(line.startswith("park: only 40% of its area are ocean cells of the region") for line in lines)
    assert elsewhere["place_sst"].isnull().all()
    with pytest.raises(SSTCastError, match="park: only 40%"):
        sstcast.forecast(run, DATE, region="171.5,173,-12,-10", places=park, out=run.folder / "e.nc")
    assert names(sstcast.forecast(run, DATE, region=west, places="none").value) == []
    assert run.places.read_text() == before


def test_update_and_evaluate_share_them(
    run: Run, farm: Path, park: Path, command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sstcast.reports.update.write_forecast_page", lambda file, page, **_: (page, False))
    draw_nothing(monkeypatch)
    made = update(run.folder, DATE).forecast
    assert names(xr.load_dataset(made)) == []
    done = sstcast.update(run, DATE, places=[farm, park])
    assert "nothing new" in done.line
    assert "its places begin with the next forecast" in done.line
    assert (names(xr.load_dataset(made)), done.lines) == ([], ())
    done = sstcast.update(run, DATE, places=farm)
    assert done.lines == (f"{run.folder}: 1 place instead of 2: without park",)
    code, out, err = command("update", run.folder, "--date", "2004-03-20")
    later = made.with_name("forecast-2004-03-20.nc")
    assert (code, err, out.count("\n")) == (0, "", 2)
    told = lines_of_places(xr.load_dataset(later).isel(init_time=0), later)
    assert out.splitlines()[1:] == told
    assert names(xr.load_dataset(later)) == ["farm"]
    assert later.with_name("forecast-2004-03-20-places.csv").exists()
    with logged() as lines:
        metrics = sstcast.evaluate(run).value
    assert lines[0].startswith(f"places of {run.folder}: 1, from farm.csv, ")
    assert [*metrics["areas"]] == ["region", "farm"]
    asked(run, park)
    report = sstcast.report(run)  # takes the scores that are there
    assert [*json.loads(run.metrics.read_text())["areas"]] == ["region", "farm"]
    assert report.new
    assert [*sstcast.evaluate(run).value["areas"]] == ["region", "park"]
    assert [*sstcast.evaluate(run, places="none").value["areas"]] == ["region"]
    assert not run.places.exists()


def test_the_probability_of_alerts_stays_with_the_places(
    run: Run, farm: Path, monkeypatch: pytest.MonkeyPatch, command, fails
) -> None:
    monkeypatch.setattr("sstcast.reports.update.write_forecast_page", lambda file, page, **_: (page, False))
    fails(["--alert 50", "has no places; give them with --places"], "update", run.folder, "--alert", 50)
    for wrong in (52, 0, 100, "half"):
        fails([f"--alert {wrong}", "5, 10, 15 and so on to 95"], "update", run.folder, "--alert", wrong)
    assert not (run.folder / "forecasts").exists()

    def kept() -> int | None:
        return json.loads(run.places.read_text()).get("alert")

    made = sstcast.update(run, DATE, places=farm, alert=5)
    file = run.folder / "forecasts/alerts.json"
    assert (made.code, kept()) == (0, 5)
    assert f"made forecast-{DATE}.nc, alerts.json" in made.line
    chance = float(xr.load_dataset(made.forecast)["place_event_probability"][0, 0])
    assert [alert["probability"] for alert in json.loads(file.read_text())] == [pytest.approx(chance, abs=1e-4)]
    assert sum(line.startswith("alert: farm: ") for line in made.lines) == 1
    again = sstcast.update(run, DATE)
    assert (again.code, again.lines) == (3, ())
    farm.write_text("name,lat,lon\nfarm,-10.3,171.3\nother,-10.3,172.3\n")
    assert sstcast.update(run, DATE, places=farm).code == 3  # which begin with the next forecast
    asked(run)  # as evaluate does
    assert kept() == 5
    assert command("update", run.folder, "--date", DATE, "--alert", "none")[0] == 3
    assert (kept(), file.exists()) == (None, False)
    assert sstcast.update(run, DATE, alert=95).code == 0
    assert kept() == 95
    fails(["--alert 50"], "update", run.folder, "--places", "none", "--alert", 50)
    assert sstcast.update(run, DATE, places="none").code == 3
    assert not file.exists()
