"""Names of methods, units, seasons and scores in tables, `metrics.json` and figures."""

# Methods.
MODEL = "model"  # the run's own, whatever its folder is called
TRUTH = "truth"
CLIMATE = "climatology"  # the baseline whose distribution is the climatological one
DEFAULT_REFERENCE = "multiscale ridge"  # the baseline that skill is told against
BASELINES = {  # and their `model.name`
    CLIMATE: "climatology",
    "trend climatology": "trend-climatology",
    "recent climatology": "recent-climatology",
    "persistence": "persistence",
    "damped persistence": "damped-persistence",
    "ridge": "ridge",
    DEFAULT_REFERENCE: "multiscale-ridge",
}
BASE_RATE, STATE = REFERENCES = ("base rate", "persistence of state")  # of probabilities of heatwaves

STANDARDISED, DEGREES = UNITS = ("standardised", "degC")
DATES = "init_time"
SEASONS = ("DJF", "MAM", "JJA", "SON")  # of the day forecast
THIRDS = ("lower", "middle", "upper")  # of an index on the initial dates
REGION = "region"  # the box that is all of it

HEATWAVE_KINDS = EXCEEDANCE, EVENT = ("exceedance", "event")  # of probabilities of heatwaves
LEVELS = (50, 80, 95)  # per cent that intervals are to cover
COVERED = tuple(f"covered_{level}" for level in LEVELS)
