from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from sstcast.config import DataConfig, Region, Splits, load_region
from sstcast.ocean.tiles import tile_index
from sstcast.ocean.windows import Windows, cut_windows

SPLITS = Splits(train=(1982, 2018), validation=(2019, 2019), test=(2020, 2021))
# Cai et al. (2023), Table 9.
TABLE_9 = {28: (147_884, 3_245, 7_271), 14: (148_038, 3_399, 7_425), 7: (148_115, 3_476, 7_502)}


def ocean_of_days(shape: tuple[int, int]) -> xr.Dataset:
    """Every cell holds the number of its day, plus a sixteenth of its position."""
    time = pd.date_range("1982-01-01", "2021-12-31")
    cells = np.arange(shape[0] * shape[1]).reshape(shape) / 16  # exact in float32
    field = np.arange(len(time), dtype=np.float32)[:, None, None] + cells.astype(np.float32)
    return xr.Dataset(
        {"anomaly": (("time", "lat", "lon"), field), "ocean_mask": (("lat", "lon"), np.ones(shape, bool))},
        {"time": time},
    )


@pytest.mark.parametrize("horizon", TABLE_9)
def test_window_counts_are_the_papers(horizon: int) -> None:
    tiles = len(tile_index(load_region("pacific"), (60, 180)))
    tiny = Region(lon=(0, tiles), lat=(0, 1), tile=(1, 1))
    data = DataConfig(region=tiny, splits=SPLITS, horizon=horizon)
    anomalies = ocean_of_days((1, tiles))
    windows = [cut_windows(anomalies, data, split) for split in ("train", "validation", "test")]
    assert tuple(map(len, windows)) == TABLE_9[horizon]


def test_windows_hold_consecutive_days_of_one_tile_and_never_cross_a_split() -> None:
    region = Region(lon=(0, 4), lat=(0, 2), tile=(2, 2))
    data = DataConfig(region=region, splits=SPLITS, horizon=28)
    anomalies = ocean_of_days((2, 4))
    outputs, inputs = set(), set()
    for split in ("train", "validation", "test"):
        windows = cut_windows(anomalies, data, split)
        batch = windows.batch(torch.arange(len(windows)))
        days = torch.cat([batch.history, batch.target], dim=-1)
        assert (days.diff(dim=-1) == 1).all()
        position = (days[:, :, 0] % 1 * 16).round().long()
        expected = torch.tensor([[0, 1, 4, 5], [2, 3, 6, 7]])
        assert (position == expected[torch.arange(len(windows)) % 2]).all()
        first = np.searchsorted(anomalies["time"].values, windows.init_times[0])
        assert int(batch.history[0, 0, -1]) == first
        used = set(days.long().unique().tolist())
        if split == "train":
            outputs = set(batch.target.long().unique().tolist())
        else:
            inputs |= used
    assert outputs
    assert not outputs & inputs


def test_land_is_zero_and_marked() -> None:
    region = Region(lon=(0, 2), lat=(0, 2), tile=(2, 2))
    anomalies = ocean_of_days((2, 2))
    anomalies["ocean_mask"][0, 0] = False
    anomalies["anomaly"] = anomalies["anomaly"].where(anomalies["ocean_mask"])
    windows: Windows = cut_windows(anomalies, DataConfig(region=region, splits=SPLITS), "test")
    batch = windows.batch(torch.tensor([0, 5]))
    assert batch.ocean.tolist() == [[False, True, True, True]] * 2
    assert (batch.history[:, 0] == 0).all()
    assert (batch.target[:, 0] == 0).all()


def test_geography_of_another_region_and_season() -> None:
    """Against angles: of places to a pole and to a meridian, and of days to midwinter."""
    region = Region(lon=(178, 182), lat=(-1, 1), tile=(2, 2))
    anomalies = ocean_of_days((2, 4)).assign_coords(lat=[-0.5, 0.5], lon=[178.5, 179.5, -179.5, -178.5])
    windows = cut_windows(anomalies, DataConfig(region=region, splits=SPLITS, history=42), "test")
    index = torch.tensor([0, 1, 2 * 182 + 1])
    geography = windows.batch(index).graph.geography
    assert geography is not None
    assert geography.shape == (3, 4, 5)
    x, y, z, sine, cosine = np.moveaxis(geography.double().numpy(), -1, 0)
    np.testing.assert_allclose(np.degrees(np.arcsin(z)), [[-0.5, -0.5, 0.5, 0.5]] * 3, atol=1e-5)
    west, east = [178.5, 179.5] * 2, [180.5, 181.5] * 2
    np.testing.assert_allclose(np.degrees(np.arctan2(y, x)) % 360, [west, east, east], atol=1e-4)
    day_of_year = np.degrees(np.arctan2(sine, cosine)) % 360 / 360 * 365.2425
    np.testing.assert_allclose(day_of_year, np.array([[41], [41], [223]]) * np.ones(4), atol=1e-3)


@pytest.mark.parametrize("every", [2, 3, 7])
def test_every_so_many_days_a_window_starts(every: int) -> None:
    region = Region(lon=(0, 4), lat=(0, 2), tile=(2, 2))
    data = DataConfig(region=region, splits=SPLITS, history=42, horizon=28)
    daily = cut_windows(ocean_of_days((2, 4)), data, "test")
    some = daily.thinned(every)
    assert some.starts == len(range(0, daily.starts, every))
    assert (some.init_times == daily.init_times[::every]).all()
    assert (some.spans(3, 5) == daily.spans(3, 5)[::every]).all()
    chosen = (torch.arange(0, daily.starts, every)[:, None] * 2 + torch.arange(2)).flatten()
    ours, theirs = some.batch(torch.arange(len(some))), daily.batch(chosen)
    assert torch.equal(ours.history, theirs.history)
    assert torch.equal(ours.target, theirs.target)
    assert torch.equal(ours.graph.geography, theirs.graph.geography)


def test_parts_break_at_gaps_and_thinning_begins_anew_after_each() -> None:
    """Against the windows of each stretch alone."""
    region = Region(lon=(0, 4), lat=(0, 2), tile=(2, 2))
    data = DataConfig(region=region, splits=SPLITS, history=42, horizon=28)
    daily = cut_windows(ocean_of_days((2, 4)), data, "test")
    windows = replace(daily, at=np.concatenate([daily.at[:20], daily.at[41:42], daily.at[100:111]]))
    stretches = [daily.part(0, 20), daily.part(41, 42), daily.part(100, 111)]
    expected = [part for stretch in stretches for part in stretch.thinned(3).parts(4)]
    found = [*windows.thinned(3).parts(4)]
    assert [part.starts for part in found] == [4, 3, 1, 4]
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part.init_times, other.init_times)
        assert torch.equal(part.spans(0, 70), other.spans(0, 70))
