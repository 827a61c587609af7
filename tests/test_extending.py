"""To add one thing, touch one place: each test registers a toy once, and finds it wherever it should appear."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.source import last_days
from sstcast.ocean.days import Day, pack
from sstcast.ocean.progress import Progress
from sstcast.ocean.raw import open_days
from sstcast.sources import SOURCES
from sstcast.sources.fetch import fetch
from sstcast.sources.request import FetchRequest
from sstcast.sources.source import Batch, Need, Source
from sstcast.sources.status import status

DAY = dt.timedelta(days=1)
FIRST, LAST = dt.date(2003, 1, 1), dt.date(2003, 1, 20)


class Lukewarm(Source):
    """A sea of 20 degC that warms by a hundredth a day."""

    name = store = "lukewarm"
    grows = True

    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        for day in need:
            field = pack(np.full(self.request.box.shape, 20 + (day - FIRST).days / 100))
            yield {day: Day(field, self.name, preliminary=day > LAST)}
            progress.settled(1)


def test_a_source_is_fetched_listed_and_forecast_from(
    run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "lukewarm", Lukewarm)
    with pytest.raises(SSTCastError, match=r"give aws, .*lukewarm"):
        FetchRequest(FIRST, LAST, "lukewarn")
    request = FetchRequest(FIRST, LAST, "lukewarm", "170,173,-12,-10", tmp_path / "a.zarr")
    assert FetchRequest(FIRST, LAST, "lukewarm").path == Path("data/lukewarm-pacific.zarr")
    assert fetch(request, say=str).complete
    before = open_days(request.path).load()

    data = load_config(run_yaml, [f"data.source={request.path}"]).data
    history = last_days(data, LAST + 2 * DAY, LAST + 3 * DAY, say=str)
    assert history["preliminary"].values.tolist() == 8 * [False] + 2 * [True]
    np.testing.assert_allclose(history[-1], 20.21, atol=1e-5)
    (held,) = status(tmp_path)
    assert held.sources == {"lukewarm": 22}
    assert held.preliminary == [LAST + DAY, LAST + 2 * DAY]

    monkeypatch.delitem(SOURCES, "lukewarm")  # the store tells by itself what its days are
    assert status(tmp_path) == [held]
    xr.testing.assert_identical(open_days(request.path).sel(time=slice(None, str(LAST))).load(), before)
