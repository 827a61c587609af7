"""Files of observations at points as centres write them: every layout gives the same values at the surface."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused

from sstcast.places.point_observations import PointObservations, parse_hours

TIMES = pd.date_range("2004-03-01T06:00", periods=6, freq="D")
LAT, LON = np.linspace(-11.9, -10.2, 6), np.linspace(170.1, 172.9, 6)
SST = np.array([20.5, 21.0, 21.5, 22.0, 22.5, 23.0])
PLATFORM = np.array(["a", "a", "b", "b", "b", "b"])
DEPTHS = np.array([1.0, 5.0, 20.0, 60.0])  # two at the surface, of the same temperature
BAD = 1  # this one is flagged, and 3 degC too warm
Writer = Callable[[Path], object]


def profiles(flags: tuple[int, int] = (1, 4), **names: str) -> pd.DataFrame:
    """A row for each depth of each observation, under other names of columns."""
    rows = [
        (time, lat, lon, sst + 3 * (row == BAD) - 0.1 * max(depth - 5, 0), platform, depth, flags[row == BAD])
        for row, (time, lat, lon, sst, platform) in enumerate(zip(TIMES, LAT, LON, SST, PLATFORM, strict=True))
        for depth in DEPTHS
    ]
    table = pd.DataFrame(rows, columns=["time", "lat", "lon", "sst", "platform", "depth", "quality"])
    return table.rename(columns=names)


def argopy(path: Path) -> None:
    names = {"lat": "LATITUDE", "lon": "LONGITUDE", "sst": "TEMP", "platform": "PLATFORM_NUMBER", "depth": "PRES"}
    profiles(**names, time="TIME", quality="TEMP_QC").assign(PRES_QC=4).to_csv(path, index=False)


def erddap(path: Path) -> None:
    table = profiles(platform="platform_number", depth="pres", sst="temp", quality="temp_qc")
    table["temp"] += 273.15
    units = {"time": "UTC", "lat": "degrees_north", "pres": "decibar", "temp": "kelvin"}
    lines = table.assign(time=table["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")).to_csv(index=False).splitlines()
    lines.insert(1, ",".join(units.get(name, "") for name in table))
    path.write_text("\n".join(lines))


def erddapy(path: Path) -> None:
    names = {"time": "time (UTC)", "lat": "latitude (degrees_north)", "lon": "longitude (degrees_east)"}
    names |= {"sst": "sea_water_temperature (degree_F)", "platform": "station", "depth": "z (m)"}
    table = profiles((1, 2), **names, quality="sea_water_temperature_qc_agg")  # QARTOD's 2 is not evaluated
    table["z (m)"] *= -1
    table["sea_water_temperature (degree_F)"] = table["sea_water_temperature (degree_F)"] * 1.8 + 32
    table.to_csv(path, index=False)


def ndbc(path: Path) -> None:
    lines = ["#YY  MM DD hh mm WTMP  PRES lat lon station", "#yr  mo dy hr mn degC hPa deg deg -"]
    for row, (time, lat, lon, sst, platform) in enumerate(zip(TIMES, LAT, LON, SST, PLATFORM, strict=True)):
        value = "MM" if row == BAD else f"{sst:.2f}"
        lines.append(f"{time:%Y %m %d %H %M} {value} 1013.2 {lat:.4f} {lon:.4f} {platform}")
    path.write_text("\n".join(lines))


def ndbc_drifters(path: Path) -> None:
    lines = ["#YY  MM DD hhmm LAT LON WTMP station", "#yr  mo dy hrmn deg deg degC -"]
    for row, (time, lat, lon, sst, platform) in enumerate(zip(TIMES, LAT, LON, SST, PLATFORM, strict=True)):
        hhmm = "2400" if row == BAD else f"{time:%H%M}"
        lines.append(f"{time:%Y %m %d} {hhmm} {lat:.4f} {lon:.4f} {sst:.2f} {platform}")
    path.write_text("\n".join(lines))


def mooring(path: Path) -> None:
    """Copernicus: an axis for each coordinate, of the same length, and depths in a second dimension."""
    table = profiles()
    shape = len(TIMES), len(DEPTHS)
    level = ("TIME", "DEPTH")
    meanings = "no_qc_performed good_data probably_good_data bad_data_that_are_potentially_correctable bad_data"
    flags = {"flag_values": np.arange(5, dtype=np.int8), "flag_meanings": meanings}
    xr.Dataset(
        {
            "TEMP": (level, table["sst"].to_numpy().reshape(shape), {"units": "degrees_C"}),
            "TEMP_QC": (level, table["quality"].to_numpy(np.int8).reshape(shape), flags),
            "DEPH": (level, np.full(shape, np.nan)),
            "PRES": (level, np.broadcast_to(DEPTHS, shape), {"units": "dbar"}),
            "STATION": ("TIME", PLATFORM),
        },
        {"TIME": TIMES, "LATITUDE": ("LATITUDE", LAT), "LONGITUDE": ("LONGITUDE", LON)},
    ).to_netcdf(path, engine="netcdf4")


def argo_profiles(path: Path) -> None:
    table, shape = profiles(), (len(TIMES), len(DEPTHS))
    level = ("N_PROF", "N_LEVELS")
    flags = table["quality"].astype(str).to_numpy("S1").reshape(shape)
    fields = {"TEMP": table["sst"].to_numpy().reshape(shape), "PRES": np.broadcast_to(DEPTHS, shape)}
    xr.Dataset(
        {name: (level, values) for name, values in (fields | {"TEMP_QC": flags}).items()}
        | {"JULD": ("N_PROF", TIMES), "LATITUDE": ("N_PROF", LAT), "LONGITUDE": ("N_PROF", LON)}
        | {"PLATFORM_NUMBER": ("N_PROF", PLATFORM.astype("S8"))}
    ).to_netcdf(path, engine="netcdf4")


def ragged(path: Path) -> None:
    """Hourly drifters: values in a row, with the number of each drifter's."""
    xr.Dataset(
        {
            "sst": ("obs", np.where(np.arange(6) == BAD, SST + 3, SST) + 273.15, {"units": "Kelvin"}),
            "flg_sst": ("obs", np.where(np.arange(6) == BAD, 3, 5)),
            "time": ("obs", TIMES),
            "latitude": ("obs", LAT),
            "longitude": ("obs", LON),
            "ID": ("traj", np.array([101, 102])),
            "rowsize": ("traj", np.array([2, 4])),
        }
    ).to_netcdf(path, engine="netcdf4")


def section(path: Path) -> None:
    """A ship at one longitude: a dimension of one, and a flag of GHRSST."""
    meanings = "no_data bad_data worst_quality low_quality acceptable_quality best_quality"
    flags = {"flag_values": np.arange(6, dtype=np.int8), "flag_meanings": meanings}
    values = np.where(np.arange(6) == BAD, SST + 3, SST)
    xr.Dataset(
        {
            "sea_surface_temperature": (("time", "lon"), values[:, None], {"units": "celsius"}),
            "quality_level": (("time", "lon"), np.where(np.arange(6) == BAD, 4, 5)[:, None], flags),
            "lat": ("time", LAT),
            "trajectory_id": ("time", PLATFORM),
        },
        {"time": TIMES, "lon": [171.0]},
    ).to_netcdf(path, engine="netcdf4")


def parts_of_dates(path: Path) -> None:
    table = profiles((5, 4), quality="quality_level", platform="drifter_id")
    parts = {part: getattr(table["time"].dt, part) for part in ("year", "month", "day", "hour")}
    table.drop(columns="time").assign(**parts).to_csv(path, index=False)


def shuffled(path: Path) -> None:
    """Columns and rows in any order, and a zone that is no line of units."""
    table = profiles(quality="SST_QC").sample(frac=1, random_state=0)
    table.assign(zone="UTC")[["zone", *reversed([*table])]].to_csv(path, index=False)


LAYOUTS: tuple[tuple[Writer, str], ...] = (
    (argopy, ".csv"),
    (erddap, ".csv"),
    (erddapy, ".csv"),
    (ndbc, ".txt"),
    (ndbc_drifters, ".txt"),
    (mooring, ".nc"),
    (argo_profiles, ".nc"),
    (ragged, ".nc"),
    (section, ".nc"),
    (parts_of_dates, ".csv"),
    (shuffled, ".csv"),
)


@pytest.mark.parametrize(("write", "suffix"), LAYOUTS)
def test_every_layout_has_the_same_good_values_at_the_surface(write: Writer, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"points{suffix}"
    write(path)
    found = PointObservations.read(path).table
    good = np.arange(6) != BAD
    day = found.groupby("time")
    assert [*day.groups] == [*TIMES[good]]
    np.testing.assert_allclose(day["sst"].mean(), SST[good], atol=1e-5)
    np.testing.assert_allclose(day["sst"].max() - day["sst"].min(), 0, atol=1e-9)  # nothing from below
    np.testing.assert_allclose(day["lat"].first(), LAT[good], atol=1e-4)
    np.testing.assert_allclose(day["lon"].first(), 171 if write is section else LON[good], atol=1e-4)
    platform = day["platform"].first().to_numpy()
    np.testing.assert_array_equal(platform == platform[0], PLATFORM[good] == "a")


def test_profiles_without_depths_are_refused_and_doubles_are_not(tmp_path: Path) -> None:
    argo = profiles(quality="sst_qc")
    argo.drop(columns="depth").to_csv(path := tmp_path / "profiles.csv", index=False)
    with refused("profiles.csv: at 100% of its places and times", "more than 0.5", "`depth` in metres"):
        PointObservations.read(path)
    argo.assign(depth=np.nan).to_csv(path, index=False)
    with refused("profiles.csv: at 100% of its places"):
        PointObservations.read(path)
    days = pd.date_range("2004-01-01", periods=100, freq="D")
    table = pd.DataFrame({"time": days, "lat": -11, "lon": 171, "sst": 20.0, "platform": "a"})
    doubles = pd.concat([table, table[:2].assign(sst=21.0)])  # 2 of 100
    doubles.to_csv(path, index=False)
    assert len(PointObservations.read(path).table) == 102
    pd.concat([doubles, table[2:3].assign(sst=21.0)]).to_csv(path, index=False)
    with refused("profiles.csv: at 3% of its places"):
        PointObservations.read(path)


def test_what_is_not_read_is_told(tmp_path: Path) -> None:
    table = profiles().drop(columns=["platform", "quality"]).astype({"time": str})
    table.loc[0, "time"] = "31.01.2004"
    table.assign(PSAL_QC=4, pressure=1013.2, flag_meaning="x").to_csv(path := tmp_path / "odd.csv", index=False)
    notes = PointObservations.read(path).notes
    assert "the time '31.01.2004' is not read; write it as 2004-01-31T12:00:00" in notes
    assert "flags that are not read: PSAL_QC, flag_meaning" in notes
    assert "no column names the platform, so there is no interval; call it `platform`" in notes
    assert "1 observations left out: without a time, place or value" in notes
    flags = {"flag_values": [1, 2], "flag_meanings": "blue green"}
    fields = {"time": TIMES, "lat": LAT, "lon": LON, "sst": SST, "station": PLATFORM}
    dataset = xr.Dataset({name: ("obs", values) for name, values in fields.items()})
    dataset["sst_qc"] = ("obs", [1, 2, 1, 1, 1, 1], flags)
    dataset.to_netcdf(path := tmp_path / "unknown.nc", engine="netcdf4")
    found = PointObservations.read(path)
    assert (len(found.table), found.notes) == (6, ("flags that are not read: sst_qc",))


@pytest.mark.parametrize("wrong", ["2400", "0860", "MM", "830"])
def test_a_time_that_no_clock_shows_is_left_out_and_counted(tmp_path: Path, wrong: str) -> None:
    header = "#YY MM DD hhmm LAT LON WTMP station\n#yr mo dy hrmn deg deg degC -\n"
    rows = [f"2004 01 02 {hhmm} -11 171 20.{n} a" for n, hhmm in enumerate(("0005", "1259", wrong))]
    (tmp_path / "drifters.txt").write_text(header + "\n".join(rows))
    parts = pd.DataFrame({"year": 2004, "month": 1, "day": 2, "hour": [0, 12, 24], "minute": [5, 59, 0]})
    parts.assign(lat=-11, lon=171, sst=[20.0, 20.1, 20.2], platform="a").to_csv(
        tmp_path / "parts.csv", index=False
    )
    for name in ("drifters.txt", "parts.csv"):
        found = PointObservations.read(tmp_path / name)
        assert [*found.table["time"].dt.strftime("%d %H:%M")] == ["02 00:05", "02 12:59"]
        assert "1 observations left out: without a time, place or value" in found.notes
    for hours, count in (("0..24", 2), ("11..12", 1)):  # 11:29 and 00:23 of local time
        assert len(PointObservations.read(tmp_path / "parts.csv", hours=parse_hours(hours)).table) == count


def test_a_pressure_of_the_air_is_no_depth(tmp_path: Path) -> None:
    table = profiles(platform="id").query("depth == 1").drop(columns="depth")
    for number, (name, value) in enumerate(
        {"pres": 1013.2, "pressure (hPa)": 9.5, "pressure (dbar)": 1013.0}.items()
    ):
        table.assign(**{name: value}).to_csv(path := tmp_path / f"{number}.csv", index=False)
        if "dbar" in name:
            with refused("deeper than 10 m"):
                PointObservations.read(path)
        else:
            assert len(PointObservations.read(path).table) == 5
