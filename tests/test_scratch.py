"""Large arrays in files, against the same in memory."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from sstcast.storage.scratch import in_scratch, release, scratch_array


@pytest.fixture
def stored(tmp_path: Path) -> xr.DataArray:
    """A field of 7 days on disk, in chunks of 3; values that are no numbers among them."""
    values = np.random.default_rng(0).normal(size=(7, 4, 5)).astype(np.float32)
    values[:, 1, 2] = np.nan
    field = xr.DataArray(values, {"time": np.arange(7)}, ("time", "lat", "lon"), name="sst")
    field.chunk(time=3).to_dataset().to_zarr(tmp_path / "sst.zarr", zarr_format=2)
    return xr.open_zarr(tmp_path / "sst.zarr")["sst"]


@pytest.mark.parametrize("kept", [0, 10**6])
def test_a_field_that_is_held_is_the_same(
    stored: xr.DataArray, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr("sstcast.storage.scratch.KEPT", kept)
    monkeypatch.setattr("sstcast.storage.scratch.VALUES_AT_ONCE", 1)
    found = in_scratch(stored)
    assert found.chunks is None
    release()
    xr.testing.assert_identical(found, stored.compute())


def test_an_array_in_a_file_keeps_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sstcast.storage.scratch.KEPT", 0)
    first, second = scratch_array((3, 2000), np.int64), scratch_array((2, 2), bool)
    assert isinstance(first, np.memmap)
    first[:], second[:] = np.arange(6000).reshape(3, 2000), [[True, False], [False, True]]
    release()
    assert first.sum() == 6000 * 5999 / 2
    assert second.tolist() == [[True, False], [False, True]]
    view = first[1:, ::2]
    del first
    release()
    assert view.sum() == np.arange(6000).reshape(3, 2000)[1:, ::2].sum()
