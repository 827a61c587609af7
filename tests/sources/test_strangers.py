"""Files that hold something else, values of other files or too many bytes; and folders of files of any name."""

import datetime as dt
import io
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
from fetching import assert_right, get
from oisst_server import DAYS, daily_file, daily_path

from perf.simulated import Simulator, canonical_name, write_day
from sstcast.config import parse_box
from sstcast.sources.granule import BadFile, read_granule
from sstcast.sources.source import RetryPolicy

BAD = DAYS[7]
GLOBE = parse_box("global")
ONCE = RetryPolicy(attempts=1, backoff=0.01)


@cache
def simulated(day: dt.date) -> bytes:
    """Return a whole globe of the simulator as a file."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_day(Path(folder) / "a.nc", day, Simulator())
        return (Path(folder) / "a.nc").read_bytes()


def forged(template: bytes, change: Callable[[h5py.File], object]) -> bytes:
    buffer = io.BytesIO(template)
    with h5py.File(buffer, "r+") as file:
        change(file)
    return buffer.getvalue()


def replace(file: h5py.File, name: str) -> None:
    """Put another variable in the place of sst."""
    del file["sst"]
    file["sst"] = file[name]


FORGERIES: dict[str, tuple[Callable[[h5py.File], object], str]] = {
    "anom": (lambda f: replace(f, "anom"), "sst is something else: its long_name is .*anomalies'"),
    "ice": (lambda f: replace(f, "ice"), "its long_name is .*ice concentration'"),
    "id": (lambda f: f.attrs.modify("id", canonical_name(dt.date(2001, 1, 1))), "its id says '20010101'"),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_what_only_looks_like_a_day_is_refused(kind: str) -> None:
    day = dt.date(2022, 2, 18)
    template = simulated(day)
    assert list(read_granule(template, [day], GLOBE).fields) == [day]
    change, reason = FORGERIES[kind]
    with pytest.raises(BadFile, match=reason):
        read_granule(forged(template, change), [day], GLOBE)


def test_values_in_other_files_do_not_land(aws, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(np.full((1, 1, 8, 8), 2222, "<i2").tobytes())

    def borrow(file: h5py.File) -> None:
        del file["sst"]
        outside = [(str(tmp_path / "secret"), 0, 128)]
        file.create_dataset("sst", (1, 1, 8, 8), "<i2", external=outside).attrs["scale_factor"] = 0.01

    aws.files[daily_path(BAD)] = forged(daily_file(BAD), borrow)
    report = get(tmp_path, retry=ONCE)
    assert list(report.missing) == [BAD]
    assert "keeps its values in another file" in report.missing[BAD]


def test_files_are_known_by_what_they_hold(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "deep/er").mkdir(parents=True)
    for index, day in enumerate(DAYS):
        (mirror / ("deep/er" if index % 2 else ".") / f"file {index}.{'nc4' if index % 3 else 'dat'}").write_bytes(
            daily_file(day)
        )
    (mirror / "a preliminary one").write_bytes(daily_file(BAD, preliminary=True))
    (mirror / "deep/again.nc").write_bytes(daily_file(DAYS[3]))
    (mirror / "README").write_text("about these files")
    (mirror / "other.nc").write_bytes(daily_file(DAYS[0] - dt.timedelta(100)))
    (mirror / "round").symlink_to(mirror)
    shutil.copytree(tmp_path / "mirror/deep", tmp_path / "mirror/store.zarr")
    (mirror / "store.zarr/.zgroup").write_text('{"zarr_format": 2}')
    report = get(tmp_path, source=str(mirror))
    assert report.complete
    assert report.preliminary == ()
    assert_right(tmp_path, DAYS)
    assert report.unused == {
        "README": "not a NetCDF file (it begins with b'about th')",
        "a preliminary one": f"preliminary; {BAD} is in deep/er/file 7.nc4",
        "deep/er/file 3.dat": f"a second file; {DAYS[3]} is in deep/again.nc",
        "other.nc": "holds none of the requested days",
        "store.zarr": "a Zarr store; set data.source to it",
    }
    assert "not used README: not a NetCDF file (it begins with b'about th')" in report.lines()
