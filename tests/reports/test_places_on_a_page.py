"""A forecast page with places: the table, the curves and the outlines on the map."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from chrome import PHONE, Chrome

from sstcast.errors import SSTCastError
from sstcast.figures.places import outlines
from sstcast.forecasting.forecast import forecast as make_forecast
from sstcast.ocean.places import Places
from sstcast.reports.page import write_forecast_page
from sstcast.reports.page_contents import chance
from sstcast.runs import Run

RING = [[531, -11.5], [532, -11.5], [532, -10.5], [531, -10.5], [531, -11.5]]  # 171..172 in another convention


@pytest.fixture(scope="module")
def file(scored: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    of = {
        "farm <b>": {"type": "Point", "coordinates": [171.3, -10.3]},
        "elsewhere": {"type": "Point", "coordinates": [20, -10.3]},
        "park": {"type": "Polygon", "coordinates": [RING]},
    }
    features = [{"type": "Feature", "properties": {"name": n}, "geometry": g} for n, g in of.items()]
    (folder / "mine.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    places = Places.read(folder / "mine.geojson")
    return make_forecast(scored.folder, "2004-07-01", folder / "f.nc", places=places)[0]


def test_the_table_says_what_the_file_holds(file: Path) -> None:
    page = write_forecast_page(file)[0].read_text()
    fields = xr.load_dataset(file).isel(init_time=0).sel(lead=7)
    table = page[page.index('<section aria-labelledby="places">') :]
    rows = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")], re.DOTALL)
    assert "in 1 week" in rows[0]
    assert "farm &lt;b&gt;" in rows[1]
    assert rows[2].endswith("<td></td><td>no forecast</td>")
    for row, name in ((rows[1], "farm <b>"), (rows[3], "park")):
        place = fields.sel(place=name)
        low, high = place["place_sst_quantile"].sel(quantile=[0.1, 0.9]).values
        assert f"<td>{float(place['place_sst']):.1f} °C ({low:.1f} to {high:.1f}); " in row
        assert row.count("<svg") == 1
        assert "nan" not in row
    told = chance(float(fields["place_heatwave_probability"].sel(place="farm <b>"))).replace("<", "&lt;")
    assert f"heatwave {told.replace('>', '&gt;')}" in rows[1]
    assert "in heatwave (" in rows[3]
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.DOTALL)[1])
    assert "171.0" in json.dumps(facts["map"])


def test_outlines_lie_in_the_longitudes_of_the_map(file: Path) -> None:
    dataset = xr.load_dataset(file)
    places = Places.from_geojson(dataset.attrs["places"])
    from sstcast.geo import Box

    drawn = outlines(places, Box.of(dataset))
    assert len(drawn["x"]) == 5  # two crosses and a ring
    np.testing.assert_allclose(drawn["x"][-1], [x - 360 for x, _ in RING])
    np.testing.assert_allclose(drawn["y"][-1], [y for _, y in RING])


def test_a_page_without_places_has_no_table(scored: Run, tmp_path: Path) -> None:
    file, _ = make_forecast(scored.folder, "2004-07-01", tmp_path / "plain.nc")
    page = write_forecast_page(file)[0].read_text()
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
