"""Names of methods, units, seasons and scores in tables, `metrics.json` and figures."""

import datetime as dt

import numpy as np

# Methods.
MODEL = "model"  # the run itself, independent of the name of its folder
TRUTH = "truth"
CLIMATE = "climatology"  # the baseline whose distribution is the climatological one
PERSISTENCE = "persistence"
DEFAULT_REFERENCE = "multiscale ridge"  # the baseline for skill scores
BASELINES = {  # name: `model.name`
    CLIMATE: "climatology",
    "trend climatology": "trend-climatology",
    "recent climatology": "recent-climatology",
    PERSISTENCE: "persistence",
    "damped persistence": "damped-persistence",
    "ridge": "ridge",
    DEFAULT_REFERENCE: "multiscale-ridge",
}
CLIMATOLOGIES = ("climatology", "trend-climatology", "recent-climatology")  # `model.name`
LINEAR_BASE = "linear base"  # of the run's network: the linear system whose forecast the network changes
PERFECT = "perfect: analyses of days that nobody knows yet"  # of a predictor; scores with it are not of forecasts
WITHOUT_PREDICTOR = "without "  # before a predictor's name: the linear system of the run that does not read it
EQUAL_THIRDS, SCORED_YEARS = ("a third each", "base rates of the scored years")
BIAS_REMOVED = ", bias removed"  # after a system's name: the system minus its mean error in other years
BASE_RATE, STATE = "base rate", "persistence of state"  # references for heatwave probabilities
REFERENCES = (BASE_RATE, STATE, EQUAL_THIRDS)  # for probabilities, which are known before the scored years

STANDARDISED, DEGREES = UNITS = ("standardised", "degC")
INIT_TIME = "init_time"
INIT_YEAR = "init_year"  # dimension of sums over the initial dates of a year
DAY, ONE_DAY = np.timedelta64(1, "D"), dt.timedelta(days=1)
SEASONS = ("DJF", "MAM", "JJA", "SON")  # season of the valid day
THIRDS = ("lower", "middle", "upper")  # of an index on the initial dates, or of weekly means
REGION = "region"  # the box that covers the whole region
IMPLAUSIBLE = (
    "implausible"  # the number of dates from which a run forecasts what `forecasting.plausible` does not allow
)

HEATWAVE_KINDS = EXCEEDANCE, EVENT = ("exceedance", "event")
LEVELS = (50, 80, 95)  # nominal coverage of the intervals in per cent
COVERED = tuple(f"covered_{level}" for level in LEVELS)
