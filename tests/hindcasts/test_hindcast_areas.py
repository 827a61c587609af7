"""A hindcast scores the means of the region and of places, and warnings of heatwaves, over all folds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from logged import logged
from small_hindcast import plan, system, write_ocean

from sstcast.figures.sheets.areas import areas
from sstcast.hindcasts.hindcast import hindcast
from sstcast.names import SCORED_YEARS
from sstcast.places.places import Place, Places
from sstcast.scores.asked import Asked
from sstcast.scores.comparisons import json_numbers
from sstcast.scores.kinds.areas import EVERY

PARK = Place("park", shapely.box(171, -11.5, 172, -10.5))
PLACES = Places((Path("mine.geojson"),), (PARK, Place("elsewhere", shapely.Point(0, 0))))


@pytest.mark.slow
def test_places_of_a_hindcast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ocean(tmp_path, years=6)
    monkeypatch.chdir(tmp_path)
    asked = replace(plan(system("one", "ridge", options={})), asked=Asked(PLACES, events=True))
    with logged() as lines:
        metrics, new = hindcast(asked)
    assert new
    assert "park: 100% of its area are in 16 ocean cells, from 171 to 172 degrees east" in lines
    assert any(line.startswith("elsewhere: lies outside the region") for line in lines)
    assert list(metrics["areas"]) == ["region", "park"]
    with asked.hindcast.open() as opened:
        tables = opened.load()
    assert set(tables["fold"].values) == {2005, 2006}
    for area, of in metrics["areas"].items():
        assert set(of) == {*metrics["systems"], SCORED_YEARS}
        crps = tables["area_crps_by_date"].sel(area=area, system="one")
        assert of["one"]["crps"] == pytest.approx(float(crps.mean()), abs=1e-5)
        for fold in (2005, 2006):
            scored = crps.sel(init_time=tables["fold"] == fold).dropna("init_time")
            assert (np.diff(scored["init_time"]) >= np.timedelta64(EVERY - 6, "D")).all()
            assert of["one"]["by_fold"]["crps"][str(fold)] == json_numbers(scored.mean().values.astype(float))
    sheet, *_ = areas(metrics, "hindcast")
    assert [name for name, _ in sheet.rows] == ["region", "park"]
    first = next(iter(metrics["systems"]))
    assert sheet.rows[1][1][0] == f"{metrics['areas']['park'][first]['crps']:.4f}"
    assert len(sheet.header) == len(sheet.rows[0][1])
    assert set(metrics["systems"]) < set(metrics["events"])  # and the persistence of state
    hits, misses = (tables[f"event_{name}_by_date"].sel(forecaster="one").sum() for name in ("hits", "misses"))
    hit_rate = metrics["events"]["one"]["hit_rate"]
    assert hit_rate["value"] == pytest.approx(float(hits / (hits + misses)), abs=1e-5)
    assert hit_rate["interval"][0] < hit_rate["value"]
    assert hindcast(asked)[1] is False
