"""Both protocols against plain NumPy on a small box."""

import numpy as np
import pytest
import xarray as xr
from small_ocean import make_sst

from sstcast.config import DataConfig, Region, Splits
from sstcast.ocean.anomalies import fit_statistics, standardise
from sstcast.reading.days_of_year import on_days
from sstcast.reading.grid import coarsen, ocean_cells

YEARS = {"train": (2001, 2002), "validation": (2003, 2003), "test": (2004, 2004)}
SPLITS = Splits.model_validate(YEARS)
REGION = Region(lon=(170, 173), lat=(-12, -10), coarsen=2, tile=(4, 6), min_ocean=0.5)


def prepared(
    protocol: str, sst: xr.DataArray, splits: Splits = SPLITS, region: Region = REGION
) -> tuple[xr.Dataset, xr.DataArray]:
    data, ocean = DataConfig(region=region, protocol=protocol, splits=splits), ocean_cells(sst)
    coarse = coarsen(sst, ocean, data.box)
    return standardise(sst, coarse, ocean, fit_statistics(sst, coarse, data), data), coarse


def small() -> xr.DataArray:
    sst = make_sst()["sst"].copy()
    sst[:, 2, 2] = np.nan  # one land cell in an otherwise wet block
    return sst


def pool(values: np.ndarray) -> np.ndarray:
    return values.reshape(*values.shape[:-2], 4, 2, 6, 2).mean((-3, -1))


def test_paper_protocol() -> None:
    sst = small()
    result, _ = prepared("paper", sst)
    day = sst["time"].dt.dayofyear.values
    values, train = sst.values, sst["time"].dt.year.values <= 2002
    standard = np.empty_like(values)
    for number in set(day):
        chosen = values[train & (day == min(number, 365))]  # two years without a 29 February
        standard[day == number] = (values[day == number] - chosen.mean(0)) / np.maximum(chosen.std(0), 0.01)
    expected = pool(np.where(np.isnan(standard), 0, standard))
    ocean = pool((~np.isnan(values[0])).astype(float)) >= 0.5
    assert not ocean.all()
    np.testing.assert_allclose(result["anomaly"].values[:, ocean], expected[:, ocean], atol=1e-4)
    assert np.isnan(result["anomaly"].values[:, ~ocean]).all()


@pytest.mark.parametrize("base", [(2001, 2002), (2001, 2003), (2002, 2003)])
def test_physical_protocol(base: tuple[int, int]) -> None:
    """Statistics are of the base period, which is that of training unless another is given."""
    sst, given = small(), {} if base == YEARS["train"] else {"base_period": base}
    result, coarse = prepared("physical", sst, Splits.model_validate(YEARS | given))
    day = sst["time"].dt.dayofyear.values
    known = sst["time"].dt.year.isin(range(base[0], base[1] + 1)).values
    angle = 2 * np.pi * np.outer(day, [1, 2, 3]) / 365.2425
    design = np.hstack([np.ones((len(day), 1)), np.cos(angle), np.sin(angle)])
    values = coarse.values.reshape(len(day), -1)
    ocean = ~np.isnan(values[0])
    fit, *_ = np.linalg.lstsq(design[known], values[known][:, ocean], rcond=None)
    anomaly = values[:, ocean] - design @ fit
    expected = anomaly / anomaly[known].std()
    np.testing.assert_allclose(result["anomaly"].values.reshape(len(day), -1)[:, ocean], expected, atol=1e-3)


@pytest.mark.parametrize("protocol", ["physical", "paper"])
def test_statistics_see_the_training_years_only(protocol: str) -> None:
    sst = small()
    later = sst.where(sst["time"].dt.year <= 2002, sst + 7)
    for name in ("climatology", "scale"):
        a, b = (prepared(protocol, s)[0][name] for s in (sst, later))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("protocol", ["physical", "paper"])
def test_degrees_come_back(protocol: str) -> None:
    sst = small()
    fine = REGION.model_copy(update={"coarsen": 1, "tile": (8, 6)})
    result, _ = prepared(protocol, sst, region=fine)
    back = on_days(result["climatology"], sst["time"]) + on_days(result["scale"], sst["time"]) * result["anomaly"]
    np.testing.assert_allclose(back, sst, atol=1e-4)
