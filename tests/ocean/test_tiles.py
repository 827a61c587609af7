import numpy as np
import pytest

from sstcast.config import Region, load_region
from sstcast.errors import SSTCastError
from sstcast.ocean.tiles import from_tiles, in_tiles, tile_index, to_tiles

# Cai et al. (2023), Table 10: west and east of each of the eleven tiles, and which are south of the equator.
TABLE_10 = [(180.125 + 15 * i, 194.875 + 15 * i, -14.875, -0.125) for i in range(6)]
TABLE_10 += [(180.125 + 15 * i, 194.875 + 15 * i, 0.125, 14.875) for i in range(5)]


def test_tiles_of_the_pacific_lie_where_the_paper_puts_them() -> None:
    region = load_region("pacific")
    lat, lon = -14.75 + 0.5 * np.arange(60), 180.25 + 0.5 * np.arange(180)
    index = tile_index(region, (60, 180))
    rows, cols = np.divmod(index, 180)
    corners = [(lon[c].min(), lon[c].max(), lat[r].min(), lat[r].max()) for r, c in zip(rows, cols, strict=True)]
    # Coarse cells of 0.5 degrees: their centres lie 0.125 inside the paper's native ones.
    inward = np.array([0.125, -0.125, 0.125, -0.125])
    np.testing.assert_allclose(corners, np.array(TABLE_10) + inward)
    assert len(tile_index(load_region("pacific12"), (60, 180))) == 12
    assert tile_index(load_region("pacific-whole"), (60, 180)).shape == (1, 10_800)
    assert tile_index(load_region("global"), (360, 720)).shape == (288, 900)


def test_there_and_back() -> None:
    region = Region(lon=(0, 6), lat=(0, 4), tile=(2, 3), skip=(2,))
    index = tile_index(region, (4, 6))
    field = np.random.default_rng(0).normal(size=(5, 4, 6))
    tiles = to_tiles(field, index)
    np.testing.assert_array_equal(tiles[:, 1], field[:, :2, 3:].reshape(5, 6))
    back = from_tiles(tiles, index, (4, 6))
    np.testing.assert_array_equal(in_tiles(region, field.shape), ~np.isnan(back[0]))
    for array in (tiles, back):  # or all that is computed with them would read memory out of order
        assert array.flags.c_contiguous
    assert np.isnan(back[:, 2:, :3]).all()
    np.testing.assert_array_equal(np.where(np.isnan(back), field, back), field)


def test_a_tile_that_is_not_there() -> None:
    with pytest.raises(SSTCastError, match=r"region.skip: no tile 4"):
        tile_index(Region(lon=(0, 6), lat=(0, 4), tile=(2, 3), skip=(4,)), (4, 6))
