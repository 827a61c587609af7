"""The simulated ocean: a pure function of seed, day and place, and an ocean at all."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from sstcast.ocean.land import GLOBE, land_mask
from sstcast.sources.simulator import Simulator, Waves, _eddies, _red_noise

LAT, LON = GLOBE.lat, GLOBE.lon
PACIFIC = LAT[300:420:4], LON[720:1080:4]  # every fourth cell


@pytest.fixture(scope="module")
def simulator():
    return Simulator(seed=0)


def anomaly(simulator, days, lat, lon):
    return simulator.field(days, lat, lon) - simulator.climatology(days, lat, lon)


def test_same_seed_same_ocean_other_seed_another():
    days = pd.date_range("2000-01-01", periods=3)
    first, again, other = (Simulator(seed).field(days, *PACIFIC) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert np.nanstd(first - other) > 0.3


def test_a_day_asked_alone_is_the_day_asked_in_a_range(simulator):
    days = pd.date_range("1999-12-01", periods=120)
    together = simulator.field(days, *PACIFIC)
    for index in (0, 17, 119):
        np.testing.assert_array_equal(simulator.field(days[[index]], *PACIFIC)[0], together[index])
    np.testing.assert_array_equal(simulator.field(days[::-1], *PACIFIC), together[::-1])


def test_a_box_asked_alone_is_the_box_cut_out(simulator):
    days = pd.date_range("2010-06-01", periods=4)
    globe = simulator.field(days, LAT, LON)
    for rows, columns in ((slice(300, 420), slice(720, 1080)), (slice(37, 40), slice(1433, 1440))):
        box = simulator.field(days, LAT[rows], LON[columns])
        np.testing.assert_array_equal(box, globe[:, rows, columns])


def test_order_and_convention_of_the_axes_do_not_matter(simulator):
    lat, lon = PACIFIC
    days = ["2003-07-01"]
    expected = simulator.field(days, lat, lon)
    np.testing.assert_array_equal(simulator.field(days, lat[::-1], lon - 360)[:, ::-1], expected)


def test_dates_of_any_kind(simulator):
    days = [dt.date(2004, 2, 28), dt.date(2004, 2, 29)]
    expected = simulator.field(days, *PACIFIC)
    assert expected.dtype == np.float32
    assert expected.shape == (2, 30, 90)
    for same in (pd.DatetimeIndex(days), np.array(days, "datetime64[ns]"), ["2004-02-28", "2004-02-29"]):
        np.testing.assert_array_equal(simulator.field(same, *PACIFIC), expected)


def test_values_are_whole_hundredths_above_freezing(simulator):
    sst = simulator.field(["1985-03-01", "2015-09-01"], LAT[::3], LON[::3])
    sea = sst[np.isfinite(sst)].astype(float)
    np.testing.assert_allclose(100 * sea, np.rint(100 * sea), atol=1e-3)
    assert sea.min() == np.float32(-1.8)
    assert 28 < sea.max() < 36


def test_land_lies_where_it_lies(simulator):
    land = {"Alice Springs": (-23.7, 133.9), "Isabela, Galapagos": (-0.8, 268.9), "South Pole": (-89.9, 0.1),
            "Tasmania": (-42.0, 146.6), "Managua": (12.1, 273.75)}  # fmt: skip
    sea = {
        "Nino 3.4": (0.0, 215.0),
        "Bass Strait": (-39.9, 145.5),
        "North Pole": (89.9, 0.1),
        "Guinea": (0.1, 0.1),
    }
    for name, (lat, lon) in (land | sea).items():
        assert land_mask([lat], [lon], simulated=True).item() == (name in land), name
    assert np.isnan(simulator.field(["2000-01-01"], [-0.875], [268.875])).all()


def test_waves_are_the_cosines_they_say():
    lat, lon, day = np.array([-7.0, 3.0]), np.array([10.0, 200.0, 359.0]), 11
    waves = Waves(k=np.array([3.0]), l=np.array([5.0]), frequency=np.array([1 / 30]), phase=np.array([0.4]))
    turns = (3 * lon + 5 * lat[:, None]) / 360 - day / 30
    expected = np.sqrt(2) * np.cos(2 * np.pi * turns + 0.4)
    np.testing.assert_allclose(waves.meridional(day, lat) @ waves.zonal(lon), expected, atol=1e-12)


def test_red_noise_forgets_exponentially():
    waves = _red_noise(np.random.default_rng(1), n=40_000, scale=8, memory=45)
    for lag in (0, 10, 45, 120):
        correlation = np.cos(2 * np.pi * waves.frequency * lag).mean()
        assert correlation == pytest.approx(np.exp(-lag / 45), abs=0.02)
    for distance in (4, 8, 16):
        correlation = np.cos(2 * np.pi * waves.l * distance / 360).mean()
        assert correlation == pytest.approx(np.exp(-((distance / 8) ** 2) / 2), abs=0.02)


def test_eddies_keep_their_variance_and_move_with_the_current():
    eddies = _eddies(np.random.default_rng(2), seed=2)
    lat, lon = np.array([0.0, 38.0]), np.arange(0, 360, 0.05)
    days = range(730_000, 730_090, 10)
    fields = np.stack([eddies.meridional(day, lat) @ eddies.zonal(lon) for day in days])
    assert np.mean(fields**2) == pytest.approx(1, abs=0.2)
    shifts = np.arange(-80, 81)  # twentieths of a degree in ten days
    for row, (slowest, fastest) in enumerate([(-1.5, -3.0), (0.8, 1.6)]):
        match = [np.mean(np.roll(fields[:-1, row], s, axis=-1) * fields[1:, row]) for s in shifts]
        best = 0.05 * shifts[np.argmax(match)]
        assert min(slowest, fastest) < best < max(slowest, fastest)
        assert max(match) > 0.8


def test_seasons_are_opposite_in_the_hemispheres(simulator):
    days = pd.date_range("2001-01-01", "2004-12-31", freq="5D")
    sst = simulator.field(days, [-35.125, 40.125], [200.125])[:, :, 0]
    year = np.exp(-2j * np.pi * np.asarray(days.day_of_year) / 365.25)
    south, north = 2 * np.mean((sst - sst.mean(0)) * year[:, None], axis=0)
    assert 2 < abs(south) < 5
    assert 3 < abs(north) < 8
    warmest = -np.angle([south, north]) / (2 * np.pi) * 365.25 % 365.25
    assert 30 < warmest[0] < 80  # February, March
    assert 215 < warmest[1] < 265  # August, September


def test_warm_pool_and_cold_tongue(simulator):
    days = pd.date_range("1990-01-01", "2009-12-31", freq="91D")
    pool, tongue, north_of_it = np.nanmean(simulator.field(days, [0.125, 10.125], [160.125, 258.125]), 0)[
        [0, 0, 1], [0, 1, 1]
    ]
    assert pool > 28
    assert tongue < 26
    assert north_of_it > tongue + 1.5


def test_el_nino_comes_every_two_to_seven_years(simulator):
    days = pd.date_range("1982-01-01", "2021-12-31", freq="15D")
    index = anomaly(simulator, days, np.arange(-4.875, 5, 2), np.arange(190.125, 240, 5)).mean((1, 2))
    years = np.arange(len(days)) * 15 / 365.25
    index -= np.polyval(np.polyfit(years, index, 1), years)
    assert 0.6 < index.std() < 1.2
    power = np.abs(np.fft.rfft(index)) ** 2
    frequency = np.fft.rfftfreq(len(days), 15 / 365.25)
    slow = (frequency > 1 / 7.5) & (frequency < 1 / 1.9)
    assert power[slow].sum() > 0.75 * power[1:].sum()


def test_slow_mode_runs_both_ways():
    for seed in range(3):
        waves = Simulator(seed)._waves["enso"]
        assert {-1, 0, 1} == set(waves.k)
        assert (waves.frequency > 0).all()


def test_instability_waves_run_westward(simulator):
    """The 2-D spectrum of 4 N, 225-261 E peaks near 1000 km and 30 days, on the westward side."""
    days = pd.date_range("2000-01-01", periods=720)
    lon = np.arange(225.125, 261, 0.5)
    row = anomaly(simulator, days, [3.875], lon)[:, 0]
    window = np.hanning(len(days))[:, None] * np.hanning(lon.size)
    power = np.abs(np.fft.fft2((row - row.mean()) * window)) ** 2
    frequency, number = np.fft.fftfreq(len(days))[:, None], np.fft.fftfreq(lon.size, 0.5 * 111.2)  # days, km
    wave_like = (np.abs(frequency) > 1 / 60) & (np.abs(number) > 1 / 3000)
    westward = wave_like & (frequency * number > 0)  # exp(2 pi i (number x + frequency t)), of one sign
    eastward = wave_like & (frequency * number < 0)
    assert power[westward].sum() > 10 * power[eastward].sum()
    peak = np.unravel_index(np.argmax(np.where(westward, power, 0)), power.shape)
    assert 25 < 1 / abs(frequency[peak[0], 0]) < 36
    assert 800 < 1 / abs(number[peak[1]]) < 1300


def test_instability_waves_stay_north_of_the_equator_in_the_east(simulator):
    days = pd.date_range("2000-01-01", periods=360, freq="3D")
    step = np.diff(anomaly(simulator, days, [-8.125, 3.875], [185.125, 240.125])[::5], axis=0).std(0)
    assert step[1, 1] > 2 * max(step[0, 0], step[0, 1], step[1, 0])


def test_persistence_error_grows_with_lead(simulator):
    days = pd.date_range("2015-01-01", "2017-12-31", freq="7D")
    sst = simulator.field(days, LAT[300:420:12], LON[720:1080:12])
    week, fortnight, month = (np.sqrt(np.nanmean((sst[n:] - sst[:-n]) ** 2)) for n in (1, 2, 4))
    assert 0.2 < week < 0.4
    assert week < fortnight < month < 0.7


def test_the_ocean_warms(simulator):
    lat, lon = np.arange(-39.875, 40, 5), np.arange(0.125, 360, 10)
    then, now = (pd.date_range(f"{year}-01-01", periods=60, freq="61D") for year in (1982, 2012))
    warming = np.nanmean(anomaly(simulator, now, lat, lon)) - np.nanmean(anomaly(simulator, then, lat, lon))
    assert 0.3 < warming < 0.6


def test_it_says_what_it_is(simulator):
    assert simulator.notice.startswith("SIMULATED by sstcast")
    assert "seed 0" in simulator.notice
