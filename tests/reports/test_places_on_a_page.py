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
from sstcast.forecasting.chances import between, chance, in_percent
from sstcast.forecasting.forecast import forecast as make_forecast
from sstcast.forecasting.place_periods import table_beside
from sstcast.forecasting.places_told import lines_of_places
from sstcast.forecasting.point_fields import STEPS
from sstcast.places.places import Places
from sstcast.reports.how_good import drawing_of_errors, scores_of
from sstcast.reports.page import write_forecast_page
from sstcast.reports.page_contents import title_of
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
        "pier": {"type": "Point", "coordinates": [170.6, -11.6]},  # on land
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
    assert "on day 7" in rows[0]
    assert "farm &lt;b&gt;" in rows[1]
    assert "<td></td>" in rows[2]
    assert "<span>no forecast</span>" in rows[2]
    assert rows[2].endswith('<td data-lead="on day 7"></td>')
    for row, name in ((rows[1], "farm <b>"), (rows[3], "pier"), (rows[4], "park")):
        place = fields.sel(place=name)
        low, high = place["place_sst_quantile"].sel(quantile=[0.1, 0.9]).values
        assert f">{float(place['place_sst']):.1f} °C ({low:.1f} to {high:.1f}); " in row
        assert row.count("<svg") == 1
        assert "nan" not in row
    assert page.index('id="places"') < page.index('<p class="area">')  # the page begins with the places
    assert page.index('id="places"') < page.index("How good: ")
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
    (told,) = re.findall('<p class="good">(How good: .*)</p>', page)
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
        "x": [171.3, 170.6, 171.5],
        "y": [-10.3, -11.6, -11.0],
        "name": ["farm <b>", "pier", "park"],
    }
    assert len(drawn["x"]) == 7  # three crosses and a ring
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
    assert told.startswith("Expected share of the sea in a marine heatwave, against 2001-2002: ")
    assert f" on day 7 (80 % interval {between([*map(float, ends)])})".replace("<", "&lt;") in told


def test_a_phone_shows_it(chrome: Chrome, file: Path) -> None:
    page = write_forecast_page(file)[0]
    chrome.screen(*PHONE, mobile=True)
    chrome.open(page, "")
    chrome.wait_until("'ready' in document.documentElement.dataset")
    assert not chrome.complaints()
    assert chrome.run("document.documentElement.scrollWidth <= innerWidth")
    assert chrome.run("document.querySelectorAll('.places svg').length") == 3
    cell = "document.querySelector('.places td[data-lead]')"
    assert chrome.run(f"getComputedStyle({cell}).display") == "block"
    assert chrome.run(f"getComputedStyle({cell}, '::before').content") == '"on day 7: "'
    assert chrome.run("byId('place').textContent") == "10.375° S, 171.375° E"  # the cell of the first place


def per_cent(share: float) -> str:
    share = round(share, 6)  # of single precision
    return "< 1 %" if share < 0.01 else "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def test_terminal_page_table_and_file_say_the_same_of_a_site_on_land_another_one_and_a_park(
    chrome: Chrome, file: Path
) -> None:
    chrome.open(write_forecast_page(file)[0])
    chrome.wait_until("'ready' in document.documentElement.dataset")
    script = (
        "[...document.querySelectorAll('.places tbody tr')].map(row => [...row.cells].map(at => at.innerText))"
    )
    on_page = {name: [" ".join(cell.split()) for cell in cells] for name, _, *cells in chrome.run(script)}
    dataset = xr.load_dataset(file).isel(init_time=0)
    in_terminal = dict(line.split(": ", 1) for line in lines_of_places(dataset, file))
    table = pd.read_csv(table_beside(file)).set_index(["place", "period", "lead"])
    for name in ("farm <b>", "pier", "park"):
        day, week, whole = (table.loc[(name, *of)] for of in (("day", 7), ("week", 7), ("horizon", 8)))
        of_file, is_area = dataset.sel(place=name), name == "park"

        def both(number: float, field: str, of_file: xr.Dataset = of_file, **at: float) -> float:
            """Return the number of the file, of which the table has four decimals."""
            exact = of_file[f"place_{field}"].sel(at, method="nearest").item()
            assert number == pytest.approx(exact, abs=5.1e-5)
            return exact

        mean = both(whole["sst"], "horizon_sst")
        low, high = (both(whole[f"sst_q{n}0"], "horizon_sst_quantile", quantile=n / 10) for n in (1, 9))
        told = f"{mean:.1f} °C in the next 8 days (80 % interval {low:.1f} to {high:.1f}); a heatwave day"
        told += " of at least 10 % of it" * is_area
        of_week = per_cent(both(week["heatwave_probability"], "week_heatwave_probability", week=1))
        if is_area:
            of_day = per_cent(both(day["probability_of_share_10"], "share_probability", share=10, lead=7))
        else:
            of_day = per_cent(both(day["heatwave_probability"], "heatwave_probability", lead=7))
        of_all = per_cent(both(whole["heatwave_probability"], "horizon_heatwave_probability"))
        told += f" in week 1: {of_week}, on day 7: {of_day}, within 8 days: {of_all}, against 2001-2002"
        share = ""
        if is_area:
            low, high = (
                per_cent(both(day[f"heatwave_share_q{n}0"], "heatwave_share_quantile", quantile=n / 10, lead=7))
                for n in (1, 9)
            )
            mean = per_cent(both(day["heatwave_share"], "heatwave_share", lead=7))
            share = f"{mean} ({low.removesuffix(' %')} to {high})"
            told += f"; its share on day 7: {share}, against 2001-2002"
        assert in_terminal[name] == on_page[name][0] == told
        low, high = (both(day[f"sst_q{n}0"], "sst_quantile", quantile=n / 10, lead=7) for n in (1, 9))
        event = f"its share in a heatwave: {share}" if is_area else f"a heatwave: {of_day}"
        mean = both(day["sst"], "sst", lead=7)
        assert on_page[name][1] == f"{mean:.1f} °C ({low:.1f} to {high:.1f}); {event}"
        if name == "farm <b>":  # on whose cell the page opens
            chrome.open(write_forecast_page(file)[0], "#day=7")
            chrome.wait_until("'ready' in document.documentElement.dataset")
            listed = chrome.run("[...document.querySelectorAll('#values > *')].map(e => e.textContent)")
            lines = dict(zip(listed[::2], (text.replace("\u00a0", " ") for text in listed[1::2]), strict=True))
            assert lines["A heatwave on this day"] == of_day
            assert of_all in lines["A heatwave within 8 days"]
    shares = np.concatenate([[0, 1], np.linspace(0, 1, 513), [0.0078, 0.01, 0.0099, 0.99, 0.9901, 0.125]])
    shares = shares.astype(np.float32)
    as_kept = (np.round(in_percent(shares) / 100 / STEPS["%"]) * STEPS["%"]).astype(np.float32)
    assert chrome.run(f"{as_kept.tolist()}.map(share)") == [*map(chance, shares.tolist())]
    assert [chance(float(np.float32(share))) for share in (0.0078, 0.01, 0.99, 0.994)] == [
        "< 1 %",
        "1 %",
        "99 %",
        "> 99 %",
    ]


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
