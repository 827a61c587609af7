"""A forecast page with places: the table, the curves and the outlines on the map."""

import datetime as dt
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from chrome import PHONE, Chrome

from sstcast.errors import SSTCastError
from sstcast.figures.places import labels, outlines
from sstcast.forecasting.forecast import forecast as make_forecast
from sstcast.places.places import Places
from sstcast.reports.how_good import drawing_of_errors, scores_of
from sstcast.reports.page import write_forecast_page
from sstcast.reports.page_contents import chance, title_of
from sstcast.runs import Run
from sstcast.storage.artefacts import write_json

RING = [[531, -11.5], [532, -11.5], [532, -10.5], [531, -10.5], [531, -11.5]]  # 171..172 in another convention


@pytest.fixture(scope="module")
def file(scored: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A forecast with places in the folder of a run with scores, which keeps the places."""
    folder = Path(shutil.copytree(scored.folder, tmp_path_factory.mktemp("page") / "small"))
    of = {
        "farm <b>": {"type": "Point", "coordinates": [171.3, -10.3]},
        "elsewhere": {"type": "Point", "coordinates": [20, -10.3]},
        "park": {"type": "Polygon", "coordinates": [RING]},
    }
    features = [{"type": "Feature", "properties": {"name": n}, "geometry": g} for n, g in of.items()]
    (folder / "mine.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    places = Places.read(folder / "mine.geojson")
    return make_forecast(folder, "2004-07-01", folder / "f.nc", places=places)[0]


def test_the_table_says_what_the_file_holds(file: Path) -> None:
    page = write_forecast_page(file)[0].read_text().replace("\u00a0", " ")
    fields = xr.load_dataset(file).isel(init_time=0).sel(lead=7)
    table = page[page.index('<section aria-labelledby="places">') :]
    rows = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")], re.DOTALL)
    assert "in 1 week" in rows[0]
    assert "farm &lt;b&gt;" in rows[1]
    assert rows[2].endswith('<td></td><td data-lead="in 1 week">no forecast</td>')
    for row, name in ((rows[1], "farm <b>"), (rows[3], "park")):
        place = fields.sel(place=name)
        low, high = place["place_sst_quantile"].sel(quantile=[0.1, 0.9]).values
        assert f">{float(place['place_sst']):.1f} °C ({low:.1f} to {high:.1f}); " in row
        assert row.count("<svg") == 1
        assert "nan" not in row
    told = chance(float(fields["place_heatwave_probability"].sel(place="farm <b>"))).replace("<", "&lt;")
    assert f"heatwave {told.replace('>', '&gt;')}" in rows[1]
    assert "in heatwave (" in rows[3]
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.DOTALL)[1])
    assert "171.0" in json.dumps(facts["map"])
    assert page.index('id="places"') < page.index('id="map"')


def test_the_page_begins_with_the_days_and_how_good_they_are(file: Path, scored: Run, tmp_path: Path) -> None:
    page = write_forecast_page(file)[0].read_text().replace("\u00a0", " ")
    assert "<h1>Forecast of sea surface temperature, 2-9 July 2004</h1>" in page
    metrics = json.loads(scored.metrics.read_text())
    rmse, climatology = (
        metrics["scores"][name]["degC"]["by_lead"]["rmse"][6] for name in ("model", "climatology")
    )
    (told,) = re.findall("<p>(How good: .*)</p>", page)
    assert told == (
        f"How good: {metrics['forecasts']} forecasts of 2004, RMSE {rmse:.2f} °C after a week (climatology "
        f"{climatology:.2f}); 80 % intervals held {100 * metrics['probabilities']['model']['covered_80']:.0f} %."
    )
    run = Run(file.parent)
    assert not write_forecast_page(file)[1]
    metrics["forecasts"] += 1
    write_json(run.metrics, metrics)
    assert write_forecast_page(file)[1]  # the scores are part of what a page is made from
    metrics["recipe"]["weights"] = "of another run"
    write_json(run.metrics, metrics)
    assert "How good" not in write_forecast_page(file)[0].read_text()
    metrics["recipe"]["weights"] = run.digest
    write_json(run.metrics, metrics)
    forecast = xr.load_dataset(file)
    own = json.loads(forecast.attrs["made_from"])
    elsewhere = json.dumps(own | {"source": f"/elsewhere/{Path(own['source']).name}"})
    oceans = {
        "moved": (forecast.assign_attrs(made_from=elsewhere), True),
        "other": (forecast.assign_attrs(own_ocean="no"), False),
        "of-another-run": (forecast.assign_attrs(own_ocean="digest"), False),
    }
    del forecast.attrs["own_ocean"]
    oceans |= {"old": (forecast, True), "old-other": (forecast.assign_attrs(made_from=elsewhere), False)}
    for name, (of, told) in oceans.items():
        assert (scores_of(file, of) is not None) is told, name
    shutil.copyfile(file, tmp_path / "alone.nc")
    assert "How good" not in write_forecast_page(tmp_path / "alone.nc")[0].read_text()


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        ("2024-01-01", "2024-01-28", "1-28 January 2024"),
        ("2024-01-05", "2024-02-01", "5 January to 1 February 2024"),
        ("2023-12-05", "2024-01-01", "5 December 2023 to 1 January 2024"),
        ("2024-01-05", "2024-01-05", "5 January 2024"),
    ],
)
def test_days_in_words(first: str, last: str, words: str) -> None:
    title = title_of(dt.date.fromisoformat(first), dt.date.fromisoformat(last))
    assert title == f"Forecast of sea surface temperature, {words}"


def test_the_drawing_of_errors_is_small_and_true() -> None:
    leads = np.arange(1, 29)
    columns = {"rmse": leads**0.5 / 10, "rmse_persistence": leads**0.5 / 5, "rmse_climatology": 0 * leads + 0.9}
    drawing = drawing_of_errors(pd.DataFrame(columns, index=pd.Index(leads, name="lead")))
    assert len(drawing) < 10_000
    curves = [
        np.array([point.split(",") for point in points.split()], float)
        for points in re.findall('<polyline points="(.*?)"', drawing)
    ]
    assert [len(curve) for curve in curves] == [28, 28, 28]
    bottom, top = (float(re.search(rf'y="([\d.]+)" dy="4" text-anchor="end">{at}<', drawing)[1]) for at in (0, 1))
    for curve, errors in zip(curves, columns.values(), strict=True):
        np.testing.assert_allclose((bottom - curve[:, 1]) / (bottom - top), errors, atol=0.001)


def test_outlines_lie_in_the_longitudes_of_the_map(file: Path) -> None:
    dataset = xr.load_dataset(file)
    places = Places.from_geojson(dataset.attrs["places"])
    from sstcast.geo import Box

    drawn = outlines(places, Box.of(dataset))
    assert labels(places, Box.of(dataset)) == {
        "x": [171.3, 171.5],
        "y": [-10.3, -11.0],
        "name": ["farm <b>", "park"],
    }
    assert len(drawn["x"]) == 5  # two crosses and a ring
    np.testing.assert_allclose(drawn["x"][-1], [x - 360 for x, _ in RING])
    np.testing.assert_allclose(drawn["y"][-1], [y for _, y in RING])


def test_a_page_without_places_has_no_table(scored: Run, tmp_path: Path) -> None:
    file, _ = make_forecast(scored.folder, "2004-07-01", tmp_path / "plain.nc", places=Places((), ()))
    page = write_forecast_page(file)[0].read_text().replace("\u00a0", " ")
    assert 'id="places"' not in page
    told = re.search(r'<p class="area">(.*?)</p>', page)[1]
    fields = xr.load_dataset(file).isel(init_time=0)
    ends = [fields["heatwave_area_quantile"].sel(quantile=q, lead=7) for q in (0.1, 0.9)]
    assert told.count("80 % interval") == 2
    for end in ends:
        assert chance(float(end)).replace("<", "&lt;").replace(">", "&gt;") in told


def test_a_phone_shows_it(chrome: Chrome, file: Path) -> None:
    page = write_forecast_page(file)[0]
    chrome.screen(*PHONE, mobile=True)
    chrome.open(page, "")
    chrome.wait_until("'ready' in document.documentElement.dataset")
    assert not chrome.complaints()
    assert chrome.run("document.documentElement.scrollWidth <= innerWidth")
    assert chrome.run("document.querySelectorAll('.places svg').length") == 2
    cell = "document.querySelector('.places td[data-lead]')"
    assert chrome.run(f"getComputedStyle({cell}).display") == "block"
    assert chrome.run(f"getComputedStyle({cell}, '::before').content") == '"in 1 week: "'
    assert chrome.run("byId('place').textContent") == "10.375° S, 171.375° E"  # the cell of the first place


def test_many_places_are_found_by_name_and_count_towards_the_size(
    chrome: Chrome, file: Path, tmp_path: Path
) -> None:
    forecast = xr.load_dataset(file)
    many = forecast.isel(place=[0] * 30).assign_coords(place=[f"farm {number}" for number in range(30)])
    many.to_netcdf(tmp_path / "many.nc")
    page = write_forecast_page(tmp_path / "many.nc")[0]
    chrome.open(page)
    chrome.wait_until("'ready' in document.documentElement.dataset")
    chrome.run("byId('find').value = ' FARM 2'; byId('find').dispatchEvent(new Event('input'))")
    rows = "[...document.querySelectorAll('.places tbody tr')].filter(row => row.offsetHeight)"
    shown = f"{rows}.map(row => row.cells[0].textContent)"
    assert chrome.run(shown) == ["farm 2", *(f"farm {number}" for number in range(20, 30))]
    assert chrome.run("byId('found').textContent") == "11 of 30 places"
    assert chrome.run("document.querySelector('.places').offsetHeight") < 600
    assert not chrome.complaints()
    with pytest.raises(SSTCastError, match=r"with 30 places has more than 0\.01 MB; forecast fewer places"):
        write_forecast_page(tmp_path / "many.nc", tmp_path / "other.html", largest=0.01)
