"""Tables as spreadsheets and loggers write them, and what every reader of tables refuses before it reads them."""

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from sstcast.benchmarks.tables import read_table
from sstcast.places.place_files import read_geometries
from sstcast.places.places import Places
from sstcast.places.point_files import read_columns
from sstcast.predictors.index_series import read_series
from sstcast.storage import csv_files
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
        if reader == "nodes":
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


def positions(path: Path) -> list[tuple[str, float, float]]:
    """Return name, latitude and longitude of each place."""
    return [(name, point.y, point.x) for name, point in read_geometries(path)]


FARMS = {
    "commas": "name,lat,lon\nfarm,-42.35,148.15\npier,-43,147\n",
    "semicolons, decimal commas": "\ufeffName;Latitude;Longitude\nfarm;-42,35;148,15\npier;-43;147\n",
    "tabs": "name\tlat\tlng\nfarm\t-42.35\t148.15\npier\t-43\t147\n",
    "a comma at the end": "name,LAT,long\nfarm,-42.35,148.15,\npier,-43,147,\n",
    "empty rows and columns of a spreadsheet": "name,lat,lon,,\n"
    "farm,-42.35,148.15,,\npier,-43,147,,\n,,,,\n,,,,\n",
    "comments and quotes": '# by hand\nname,lat,lon\n# in the bay\nfarm,"-42,35",148.15\npier,-43,147\n',
}


@pytest.mark.parametrize("form", FARMS)
def test_places_are_the_same_in_every_form(tmp_path: Path, form: str) -> None:
    (tmp_path / "a.csv").write_text(FARMS[form], encoding="utf-8")
    assert positions(tmp_path / "a.csv") == [("farm", -42.35, 148.15), ("pier", -43.0, 147.0)]


def test_a_hash_within_a_line_is_no_comment(tmp_path: Path) -> None:
    times = pd.date_range("2004-03-01", periods=6)
    lines = [f"{time:%Y-%m-%d},-42,148,15,Mooring #{number}" for number, time in enumerate(times)]
    (tmp_path / "a.csv").write_text("\n".join(["# deployed in March", "date,lat,lon,sst,station", *lines]))
    assert read_columns(tmp_path / "a.csv").table["platform"].tolist() == [f"Mooring #{n}" for n in range(6)]


def test_further_cells_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,lat,lon\n\n# a comment\npier,-43,147\nfarm,-42,35,148,15\n")
    with refused(f"{path}: line 5: has more cells than the 3 columns"):
        Places.read(path)
    path.write_text("date,lat,lon,sst\n2004-03-01,-42,35,148,15\n")
    with refused(f"{path}: line 2: has more cells than the 4 columns"):
        read_columns(path)
    path.write_text("name,lat,lon\npier,-43,147\n\nfarm,42.35S,148.15\n")
    with refused(f"{path}: line 4: lat '42.35S' is no number"):
        Places.read(path)


def test_observations_with_a_comma_at_the_end_of_rows_keep_their_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("date,lat,lon,sst\n2004-03-01,-42,148,15.5,\n2004-03-02,-42,148,16,\n,,,,\n")
    (tmp_path / "b.csv").write_text("date;lat;lon;sst\n2004-03-01;-42;148;15,5\n2004-03-02;-42;148;16\n")
    for name in ("a.csv", "b.csv"):
        table = read_columns(tmp_path / name).table
        assert table["sst"].tolist() == [15.5, 16.0]
        assert table["lat"].tolist() == [-42.0, -42.0]


def test_hours_beside_dates_are_read(tmp_path: Path) -> None:
    rows = [f"2004-03-01,{hour},30,-42,148,15" for hour in range(24)]
    (tmp_path / "a.csv").write_text(
        "\n".join(["date,hour,minute,lat,lon,sst", *rows, "2004-03-02,24,0,-42,148,15"])
    )
    times = read_columns(tmp_path / "a.csv").table["time"]
    expected = np.datetime64("2004-03-01T00:30") + np.arange(24) * np.timedelta64(1, "h")
    np.testing.assert_array_equal(times.values[:24], expected)
    assert pd.isna(times[24])


def test_a_position_that_is_no_number_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("date,lat,lon,sst\n2004-03-01,42.35S,148,15\n2004-03-02,-42,148,\n")
    assert read_columns(tmp_path / "a.csv").notes == ["lat '42.35S' is no number; write degrees, such as -42.35"]


def test_a_full_time_beside_an_hour_is_not_moved_and_hours_in_text_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = ["2004-03-01T13:30:00Z,13", "2004-03-01T10:00+10:00,10", "2004-03-02 00:00:00,5", "2004-03-03,6"]
    path.write_text("\n".join(["date,hour,lat,lon,sst", *(f"{row},-42,148,15" for row in rows)]))
    read = read_columns(path)
    expected = ["2004-03-01T13:30", "2004-03-01T00:00", "2004-03-02T05:00", "2004-03-03T06:00"]
    np.testing.assert_array_equal(read.table["time"], np.array(expected, "M8[ns]"))
    assert read.notes == []
    for dates, first in (("date", "2004-03-01"), ("year,month,day", "2004,3,1")):
        path.write_text(f"{dates},hour,lat,lon,sst\n{first},13:00,-42,148,15\n{first},,-42,148,15\n")
        read = read_columns(path)
        assert read.table["time"].isna().all()
        assert read.notes == ["the time is not read where hour is '13:00'; write a number"]
    path.write_text("date,hour,lat,lon,sst\n31/01/2004,13,-42,148,15\n")
    assert read_columns(path).notes == ["the time '31/01/2004' is not read; write it as 2004-01-31T12:00:00"]


def test_repeated_and_empty_names_are_numbered_as_pandas_does(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    header = "time,,lat,lon,,sst,note,note,note.1,note,further 0"
    path.write_text(f"{header}\n2004-03-01,x,-42,148,y,15.5,a,b,c,d,e,\n")
    found = csv_files.read_table(path)
    expected = pd.read_csv(path, index_col=False).iloc[:, :11]
    assert [*found.columns] == [*expected.columns]
    assert found.iloc[0].tolist() == expected.iloc[0].tolist()
    assert read_columns(path).table["sst"].tolist() == [15.5]


def test_a_row_that_begins_like_a_comment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for read, header, row in (
        (Places.read, "name,lat,lon", "2,-43,148"),
        (read_columns, "date,lat,lon,sst", '2004-03-01,-43,148,"15,5"'),
    ):
        for end in ("", ","):
            path.write_text(f"# by hand, in May, 2004\n{header}\n#{row}{end}\n{row}\n")
            with refused(f"{path}: line 3: begins with #", "write a space or quotes before it, or remove it"):
                read(path)
    path.write_text('name,lat,lon\n #2,-43,148\n"#3",-43,148\n# checked, in May\n# a, b, c, d\n')
    assert positions(path) == [("#2", -43.0, 148.0), ("#3", -43.0, 148.0)]


def test_archives_are_named_as_such(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", FARMS["commas"])
    for read in (Places.read, read_columns):
        with refused(f"{tmp_path}/a.csv.zip: is an archive; unpack it"):
            read(tmp_path / "a.csv.zip")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(FARMS["commas"].encode()))
    assert positions(tmp_path / "a.csv.gz") == positions_of_commas(tmp_path)


def positions_of_commas(folder: Path) -> list[tuple[str, float, float]]:
    (folder / "plain.csv").write_text(FARMS["commas"])
    return positions(folder / "plain.csv")


def test_a_comment_is_one_whatever_the_quotes_around_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = '"a\nb",1,2\n# the buoy, 5" wide\n"c ""d""\n# e",3,4\n#\n5" f,5,6\n"g",7,8\n'
    path.write_text(f'# deployed 5" deep\n\nname,lat,lon\n{rows}')
    assert positions(path) == [("a\nb", 1, 2), ('c "d"\n# e', 3, 4), ('5" f', 5, 6), ("g", 7, 8)]
    assert csv_files.lines_of(path) == [4, 7, 10, 11]


@pytest.mark.parametrize("repeated", ["lat,lat", "Lat,lat", "lat,lat.1"])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, repeated: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"date,name,{repeated},lon,sst\n2004-03-01,a,-42,-43,148,15\n")
    for read in (Places.read, read_columns):
        with refused(path, "has 2 columns called", "rename or remove all but one"):
            read(path)
    path.write_text("date,lat,lon,sst (degC),sst (degF)\n2004-03-01,-42,148,15,59\n")
    with refused(path, "has 2 columns called sst"):
        read_columns(path)
