"""A simulated ocean on the grid of OISST, for use without a network: SIMULATED temperatures, never observations.

Temperature is a closed-form function of (seed, day, place):

    sst = climatology + trend + sum over layers of gain(day) * envelope(lat, lon) * waves(day, lat, lon)

where `waves` is a sum of random plane waves of unit variance. Nothing is integrated from day to day, so a single
day or a small box has the same values as in a longer or larger request. Values are rounded to hundredths of a
degree, the resolution of OISST; this removes differences caused by the order of floating-point sums.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sstcast.ocean import simulated_climate as climate
from sstcast.ocean.days import Day, block_of, pack
from sstcast.ocean.land import land_mask
from sstcast.ocean.progress import Progress
from sstcast.ocean.simulated_climate import ENVELOPES, FREEZING, RADIANS, YEAR, Array
from sstcast.sources.source import Batch, Need, Source

Dates = ArrayLike | Sequence[dt.date]

OCEAN = "0.1.0"  # the version of sstcast that first had this ocean: stores grow only by days of the same one


@dataclass(frozen=True)
class Waves:
    """`n` plane waves cos(k lon + l lat - frequency day + phase), whose sum has unit variance.

    `k` and `l` are in waves per 360 degrees, `frequency` is in cycles per day, `phase` in radians; all have shape
    `[n]`. `k` is an integer, so that the waves close around the globe. A wave moves eastward if `k` and
    `frequency` have the same sign.
    """

    k: Array
    l: Array  # noqa: E741
    frequency: Array
    phase: Array

    def zonal(self, lon: Array) -> Array:
        """Return the factor `[2n, lon]` that is the same every day."""
        angle = RADIANS * self.k[:, None] * lon
        factor: Array = np.sqrt(2 / self.k.size) * np.vstack([np.cos(angle), -np.sin(angle)])
        return factor

    def meridional(self, day: int, lat: Array) -> Array:
        """Return the factor `[lat, 2n]` of a day; multiplied by `zonal` it gives the field `[lat, lon]`."""
        return _cos_sin(RADIANS * self.l * lat[:, None] + self.phase - 2 * np.pi * self.frequency * day)


@dataclass(frozen=True)
class Eddies(Waves):
    """Frozen patterns that the mean currents advect and shear.

    A generation grows and decays over 2 * `life` days around its birth. Two generations overlap on any day, and
    their variances add up to one. With a longer life, shear would turn the patterns into subgrid filaments.
    """

    seed: int
    life: int = 45

    def meridional(self, day: int, lat: Array) -> Array:
        factor = np.zeros((lat.size, 2 * self.k.size))
        for generation in (day // self.life, day // self.life + 1):
            age = day - generation * self.life
            phase = np.random.default_rng([self.seed, 1, generation]).uniform(0, 2 * np.pi, self.k.size)
            place = RADIANS * (self.l * lat[:, None] - self.k * age * climate.drift(lat)[:, None])
            factor += np.cos(np.pi / 2 * age / self.life) * _cos_sin(place + phase)
        return factor


class Simulator:
    """A SIMULATED ocean; `seed` (0 or more) chooses which one, `notice` says so in words."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.notice = f"SIMULATED by sstcast {OCEAN}, seed {seed}: not an observation"
        rng = np.random.default_rng([seed, 0])
        self._waves = {
            "enso": _enso(rng),
            "tiw": _instability_waves(rng),
            "eddies": _eddies(rng, seed),
            "weather": _red_noise(rng, n=96, scale=8, memory=45),
            "analysis": _red_noise(rng, n=128, scale=1.3, memory=3),
        }

    def field(self, days: Dates, lat: ArrayLike, lon: ArrayLike) -> NDArray[np.float32]:
        """Return sea surface temperature `[time, lat, lon]` in degC, rounded to hundredths, NaN on land.

        `days` are dates of any type that NumPy accepts; `lat` and `lon` are degrees in any order and convention.
        """
        lat, lon, ordinals = np.asarray(lat, float), np.asarray(lon, float), _ordinals(days)
        land = land_mask(lat, lon, simulated=True)
        layers = [
            (name, waves, climate.chart(ENVELOPES[name], lat, lon), waves.zonal(lon))
            for name, waves in self._waves.items()
        ]
        sst = np.empty((len(ordinals), lat.size, lon.size), np.float32)
        for index, day in enumerate(ordinals):
            anomaly = climate.warming(day, lat, lon)
            for name, waves, envelope, zonal in layers:
                anomaly += self._gain(name, day) * envelope * (waves.meridional(day, lat) @ zonal)
            climatology = climate.climatology(day, lat, lon)
            exposed = np.clip((climatology - FREEZING) / 3, 0, 1)  # near freezing, ice covers the water
            total = np.maximum(climatology + exposed * anomaly, FREEZING)
            sst[index] = np.where(land, np.nan, np.rint(100 * total) / 100)
        return sst

    def climatology(self, days: Dates, lat: ArrayLike, lon: ArrayLike) -> Array:
        """Return the climatological temperature `[time, lat, lon]` in degC, also over land."""
        lat, lon = np.asarray(lat, float), np.asarray(lon, float)
        return np.stack([climate.climatology(day, lat, lon) for day in _ordinals(days)])

    def _gain(self, name: str, day: int) -> float:
        """Make El Nino strongest around New Year, and instability waves strongest in autumn and during La Nina."""
        if name == "enso":
            return 1 + 0.35 * climate.annual(day, peak=0.96)
        if name == "tiw":
            waves = self._waves["enso"]
            nino = (waves.meridional(day, np.array([0.0])) @ waves.zonal(np.array([215.0]))).item()
            return (0.7 + 0.3 * climate.annual(day, peak=0.8)) * min(max(1 - 0.5 * nino, 0.2), 1.8)
        return 1.0


class Simulation(Source):
    """The simulated ocean for the request's seed, on any day."""

    name = store = "simulator"
    foresees = True

    def read(self, need: Need, progress: Progress) -> Iterator[Batch]:
        simulator, box = Simulator(self.request.seed), self.request.box
        for _, members in groupby(need, block_of):
            days = list(members)
            fields = zip(days, pack(simulator.field(days, box.lat, box.lon)), strict=True)
            yield {day: Day(field, self.name, preliminary=False, notice=simulator.notice) for day, field in fields}
            progress.settled(len(days))


def _enso(rng: np.random.Generator) -> Waves:
    """Periods of 2 to 7 years, standing and travelling both ways along the equator."""
    n = 16  # frequencies are stratified, so that forty years have a similar variance for every seed
    frequency = (1 / 7 + (1 / 2 - 1 / 7) * (np.arange(n) + rng.random(n)) / n) / YEAR
    return Waves(rng.permutation(np.tile([-1.0, 0, 0, 1], n // 4)), np.zeros(n), frequency, _phases(rng, n))


def _instability_waves(rng: np.random.Generator) -> Waves:
    """About 1000 km (40 waves around the globe) and 30 days, travelling westward, coherent for a month or two."""
    n = 32
    k = -np.rint(rng.normal(40, 5, n))
    return Waves(k, rng.normal(0, 8, n), rng.normal(1, 0.2, n) / 30, _phases(rng, n))


def _eddies(rng: np.random.Generator, seed: int) -> Eddies:
    """Wavelengths of 250 to 600 km in every direction."""
    n = 96
    number, angle = 40_000 / rng.uniform(250, 600, n), _phases(rng, n)
    return Eddies(np.rint(number * np.cos(angle)), number * np.sin(angle), np.zeros(n), np.zeros(n), seed)


def _red_noise(rng: np.random.Generator, n: int, scale: float, memory: float) -> Waves:
    """A Gaussian correlation over `scale` degrees in space, an exponential one over `memory` days in time.

    Frequencies drawn from a Cauchy distribution have the exponential autocovariance of an AR(1) process.
    """
    spread = 1 / (RADIANS * scale)
    frequency = rng.standard_cauchy(n) / (2 * np.pi * memory)
    return Waves(np.rint(rng.normal(0, spread, n)), rng.normal(0, spread, n), frequency, _phases(rng, n))


def _phases(rng: np.random.Generator, n: int) -> Array:
    return rng.uniform(0, 2 * np.pi, n)


def _cos_sin(angle: Array) -> Array:
    return np.hstack([np.cos(angle), np.sin(angle)])


def _ordinals(days: Dates) -> list[int]:
    """Count days from 0000-01-01, so that `day / YEAR` is the year."""
    since = np.asarray(days).astype("datetime64[D]") - np.datetime64("0000-01-01")
    return [int(day) for day in since.astype(int)]
