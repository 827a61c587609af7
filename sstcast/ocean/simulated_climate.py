"""The fixed part of the simulated ocean: its climatology, and where its variability is strong.

Every field is a sum of a few Gaussian bumps, chosen by hand to resemble the real ocean; no observations are used.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

YEAR = 365.2425
FREEZING = -1.8  # degC, sea water
RADIANS = np.pi / 180
METRES = 111_195.0  # per degree of latitude
TREND = 0.015  # degC per year

# Gaussian bumps: height, centre (degrees north, east), half width to 1/e in latitude and in longitude.
Bumps = list[tuple[float, float, float, float, float]]
ALL = 1e4  # a width without limit

MEAN: Bumps = [
    (1.6, 0, 150, 16, 45),  # warm pool
    (-2.4, -2, 268, 5, 45),  # cold tongue
    (1.2, 10, 268, 5, 30),  # warm band of the intertropical convergence
    (1.6, -15, 182, 12, 35),  # South Pacific convergence
    (-2.0, -10, 262, 8, 35),  # south-east trades
    (2.5, -38, 154, 9, 14),  # East Australian current
    (-6.0, -17, 286, 14, 14),  # Humboldt current
    (-4.0, 30, 242, 10, 12),  # California current
    (-4.0, -20, 8, 10, 12),  # Benguela current
    (-2.5, 20, 342, 10, 10),  # Canary current
    (3.5, 38, 305, 7, 25),  # Gulf Stream
    (5.0, 66, 5, 14, 25),  # North Atlantic Drift
    (4.0, 48, 342, 10, 28),  # North Atlantic Current
    (-5.0, 52, 302, 10, 12),  # Labrador current
    (-3.0, 52, 155, 10, 20),  # Oyashio
    (3.0, 54, 222, 9, 16),  # Gulf of Alaska
    (-3.0, -51, 20, 9, 60),  # Antarctic Circumpolar Current, Indian and Atlantic sector
    (2.0, -52, 230, 9, 70),  # and Pacific sector
]
LATE_AUGUST: Bumps = [(5.0, 42, 0, 20, ALL), (2.0, 38, 140, 12, 25), (-3.0, -34, 0, 18, ALL)]  # warmest then
END_OF_MARCH: Bumps = [(2.2, -3, 270, 6, 35), (2.0, -3, 355, 6, 20)]  # the cold tongues
MAY_AND_NOVEMBER: Bumps = [(0.3, 0, 0, 15, ALL)]

ENVELOPES: dict[str, Bumps] = {
    "enso": [
        (1.15, 0, 232, 8, 50),
        (-0.3, 22, 180, 10, 40),
        (-0.3, -22, 195, 10, 40),
        (0.25, -5, 65, 18, 30),
    ],
    "tiw": [(0.9, 4, 242, 2.6, 27), (0.35, -2.5, 242, 2, 27)],
    "eddies": [
        (0.16, 0, 0, ALL, ALL),
        (1.1, 37, 155, 6, 22),  # Kuroshio
        (1.4, 40, 300, 6, 18),  # Gulf Stream
        (1.1, -40, 28, 5, 30),  # Agulhas
        (1.3, -42, 308, 6, 12),  # Brazil and Malvinas
        (0.7, -36, 154, 8, 8),  # East Australia
        (0.3, -50, 0, 7, ALL),  # Antarctic Circumpolar
    ],
    "weather": [(0.32, 0, 0, ALL, ALL), (0.3, 42, 0, 16, ALL), (0.2, -42, 0, 16, ALL)],
    "analysis": [(0.1, 0, 0, ALL, ALL)],
}
SLOW_WARMING: Bumps = [(-0.8, -8, 260, 20, 50)]  # south-east Pacific, as a share of TREND

# Mean currents: speed in m/s eastward, centre latitude, half width to 1/e.
CURRENTS = [(-0.30, 0, 5), (0.15, 7, 3), (-0.12, 17, 8), (-0.08, -15, 8), (0.12, 38, 5), (0.15, -48, 8)]


def climatology(day: int, lat: Array, lon: Array) -> Array:
    """Return the climatological temperature `[lat, lon]` in degC on a day; `day` counts from year 0."""
    zonal_mean = FREEZING + 29.4 * np.exp(-((np.abs(lat - 1) / 48.2) ** 2.87))
    expected = (
        zonal_mean[:, None]
        + chart(MEAN, lat, lon)
        + annual(day, peak=0.65) * chart(LATE_AUGUST, lat, lon)
        + annual(day, peak=0.25) * chart(END_OF_MARCH, lat, lon)
        + annual(2 * day, peak=0.66) * chart(MAY_AND_NOVEMBER, lat, lon)
    )
    return np.maximum(expected, FREEZING)


def warming(day: int, lat: Array, lon: Array) -> Array:
    """Return the warming `[lat, lon]` in degC since the middle of NOAA's base period, 1971-2000."""
    return TREND * (day / YEAR - 1985.5) * (1 + chart(SLOW_WARMING, lat, lon))


def drift(lat: Array) -> Array:
    """Return the mean eastward current in degrees of longitude per day."""
    speed, centre, width = np.array(CURRENTS).T[:, :, None]
    metres: Array = 86_400 * (speed * np.exp(-(((lat - centre) / width) ** 2))).sum(0)
    return metres / (METRES * np.cos(RADIANS * lat))


def chart(bumps: Bumps, lat: Array, lon: Array) -> Array:
    """Return the sum of `bumps` as `[lat, lon]`."""
    height, south, east, rows, columns = np.array(bumps).T[:, :, None]
    distance = (lon - east + 180) % 360 - 180
    meridional: Array = height * np.exp(-(((lat - south) / rows) ** 2))
    zonal: Array = np.exp(-((distance / columns) ** 2))
    return meridional.T @ zonal


def annual(day: int, peak: float) -> float:
    """Return a cosine with a period of one year; `peak` is the fraction of the year at which it is 1."""
    return float(np.cos(2 * np.pi * (day / YEAR - peak)))
