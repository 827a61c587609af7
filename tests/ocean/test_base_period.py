"""Statistics follow `data.splits.base_period`; without one nothing is other than it was."""

from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from refusals import refused
from scored_runs import configure

from sstcast.config import DataConfig
from sstcast.extremes.heatwaves import limits, limits_of
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.storage.yaml_files import written

SPANS = {"train": [2001, 2002], "validation": [2003, 2003], "test": [2004, 2004]}


def data_of(folder: Path, sst_file: Path, base: Any = None) -> DataConfig:
    splits = SPANS | ({"base_period": base} if base else {})
    return configure(folder, sst_file, splits=splits, directory=folder / "prepared").data


def test_names_follow_the_base_period_and_records_reach_back_to_it(tmp_path: Path, sst_file: Path) -> None:
    bases = (None, ["2001-01-01", "2002-12-31"], [2001, 2003])
    plain, given, early = (data_of(tmp_path, sst_file, base) for base in bases)
    assert Prepared.of(plain).anomalies == Prepared.of(given).anomalies
    assert Prepared.of(plain).anomalies.name == "physical-2001-01-01-2002-12-31.zarr"
    assert Prepared.of(early).anomalies.name == "physical-2001-01-01-2003-12-31.zarr"
    assert "base_period" not in written(plain)["splits"]
    assert plain.model_dump(mode="json")["splits"]["base_period"] is None
    for dumped in (written(early), early.model_dump(mode="json")):
        assert dumped["splits"]["base_period"] == ["2001-01-01", "2003-12-31"]
    late = early.splits.model_copy(update={"train": (early.splits.validation[0],) * 2})
    assert late.whole == (early.splits.train[0], early.splits.test[1])


def test_limits_are_kept_until_they_are_damaged(tmp_path: Path, sst_file: Path) -> None:
    data = data_of(tmp_path, sst_file)
    prepared = prepare(data)
    cube, _ = prepared.open()
    expected = limits(cube["sst"].sel(time=slice("2001", "2002")).load())
    xr.testing.assert_allclose(limits_of(Prepared.of(data))[list(expected)], expected)
    made = prepared.limits.stat().st_mtime_ns
    xr.testing.assert_allclose(limits_of(Prepared.of(data))[list(expected)], expected)
    assert prepared.limits.stat().st_mtime_ns == made
    prepared.limits.write_bytes(b"damaged")
    xr.testing.assert_allclose(limits_of(Prepared.of(data))[list(expected)], expected)
    assert prepared.limits.stat().st_size > 1000


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ([2003, 2004], "base_period: give"),
        ([2003, 2002], "base_period: give"),
        ([1990, 2002], "data.splits.base_period: 1990-01-01..2002-12-31 has days outside the data"),
        (["2003-06-01", "2003-12-31"], "data.splits.base_period: 214 days, but a climatology needs a year"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, sst_file: Path, base: Any, words: str) -> None:
    with refused(words):
        prepare(data_of(tmp_path, sst_file, base))
