"""What every reader of tables refuses before it reads them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused

from sstcast.benchmarks.tables import read_table
from sstcast.ocean.places import Places
from sstcast.ocean.point_files import read_columns
from sstcast.predictors.index_series import read_series
from sstcast.storage.yaml_files import read_yaml

READERS: dict[str, Callable[[Path], object]] = {
    "places": Places.read,
    "observations": read_columns,
    "nodes": lambda path: read_table(path, [], []),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_table_that_is_none_is_refused_at_once(tmp_path: Path, reader: str) -> None:
    read, path = READERS[reader], tmp_path / "a.csv"
    os.mkfifo(path)
    with refused(path, "cannot be read (a pipe or a device, not a file)"):
        read(path)
    with refused("/dev/zero: cannot be read (a pipe or a device, not a file)"):
        read(Path("/dev/zero"))
    path.unlink()
    path.write_text(",".join(f"column {number}" for number in range(100_000)))
    with refused(path, "its first line is longer than 1 MiB"):
        read(path)
    for separator, name in (";", "semicolons"), ("\t", "tabs"):
        path.write_text(
            "# north, south\n" + separator.join(["name", "lat", "lon"]) + f"\na{separator}1,5{separator}2,5\n"
        )
        with refused(f"{path}: separated by {name}; save it with commas between columns and decimal points"):
            read(path)


def test_an_index_and_other_files_of_places_are_no_pipes(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "index.txt")
    with refused(path, "cannot be read (a pipe or a device, not a file)"):
        read_series(path)
    os.mkfifo(path := tmp_path / "config.yaml")
    with refused(path, "cannot read it (a pipe or a device, not a file)"):
        read_yaml(path)
    for suffix in (".geojson", ".geojsonl", ".gpkg"):
        os.mkfifo(path := tmp_path / f"a{suffix}")
        with refused(path, "cannot be read (a pipe or a device, not a file)"):
            Places.read(path)
