"""From the tables of a run to `metrics.json`: plain numbers, None where undefined."""

from typing import Any

import xarray as xr

from sstcast.scores import heatwaves
from sstcast.scores.comparison import DATES, SEASONS, compare_errors, plain, shares
from sstcast.scores.ensembles import spread_skill
from sstcast.scores.metrics import METRICS
from sstcast.scores.tables import DEGREES, MODEL, TRUTH, UNITS
from sstcast.scores.tally import MOMENTS, metrics_of

Metrics = dict[str, Any]


def summarise(tables: xr.Dataset, members: int) -> Metrics:
    """Return `scores`, `skill`, `heatwaves`, `indices` and, of more than one member, `ensemble`.

    Raises SSTCastError if the dates are too few for intervals.
    """
    baselines = [name for name in tables["forecast"].values if name != MODEL]
    return {
        "scores": _scores(tables),
        "skill": {units: {name: _skill(tables, name, units) for name in baselines} for units in UNITS},
        "heatwaves": _heatwaves(tables),
        "indices": _indices(tables["index"].astype(float)),
        "ensemble": _ensemble(tables.sel(units=DEGREES, forecast=MODEL), members) if members > 1 else None,
    }


def _scores(tables: xr.Dataset) -> Metrics:
    dates, tiles = ({n: tables[f"{n}_by_{by}"].astype(float) for n in MOMENTS} for by in ("date", "tile"))

    def metrics(moments: dict[str, xr.DataArray], *dims: str) -> dict[str, xr.DataArray]:
        return metrics_of({name: moment.mean(dims) for name, moment in moments.items()})

    whole, by_lead = metrics(dates, DATES, "lead"), metrics(dates, DATES)
    by_tile = metrics(tiles, "lead")
    seasons = {}
    for season in SEASONS:
        within = {name: moment.where(moment["season"] == season) for name, moment in dates.items()}
        seasons[season] = metrics(within, DATES, "lead")

    def of(at: dict[str, str]) -> Metrics:
        return {
            **{name: _at(whole[name], at) for name in METRICS},
            "by_lead": {name: _at(by_lead[name], at) for name in METRICS},
            "by_tile": {name: _at(by_tile[name], at) for name in METRICS},
            "by_season": {name: {s: _at(score[name], at) for s, score in seasons.items()} for name in METRICS},
        }

    names = tables["forecast"].values
    return {name: {units: of({"forecast": name, "units": units}) for units in UNITS} for name in names}


def _skill(tables: xr.Dataset, reference: str, units: str) -> Metrics:
    tables = tables.sel(units=units)
    model, other = tables.sel(forecast=MODEL), tables.sel(forecast=reference)
    compared = compare_errors(model["mse_by_date"], other["mse_by_date"])
    if units != DEGREES:
        return compared
    difference = model["mse_by_cell"] - other["mse_by_cell"]
    return compared | shares(tables["p_fdr"].sel(reference=reference), difference)


def _heatwaves(tables: xr.Dataset) -> Metrics:
    names = ("warned", "observed", "hit", "brier")
    means = {name: tables[f"heatwave_{name}_by_date"].astype(float).mean(DATES) for name in names}
    by_lead = heatwaves.rates(means)
    whole = heatwaves.rates({name: mean.mean("lead") for name, mean in means.items()})

    def of(at: dict[str, str]) -> Metrics:
        return {name: _at(score, at) for name, score in whole.items()} | {
            "by_lead": {name: _at(score, at) for name, score in by_lead.items()}
        }

    return {name: of({"forecast": name}) for name in tables["forecast"].values}


def _indices(index: xr.DataArray) -> Metrics:
    truth = index.sel(series=TRUTH)
    mse = ((index - truth) ** 2).mean(DATES)
    correlation, by_lead = xr.corr(index, truth, [DATES, "lead"]), xr.corr(index, truth, DATES)

    def of(at: dict[str, str]) -> Metrics:
        return {
            "rmse": _at(mse.mean("lead") ** 0.5, at),
            "correlation": _at(correlation, at),
            "by_lead": {"rmse": _at(mse**0.5, at), "correlation": _at(by_lead, at)},
        }

    methods = [name for name in index["series"].values if name != TRUTH]
    return {box: {name: of({"box": box, "series": name}) for name in methods} for box in index["box"].values}


def _ensemble(tables: xr.Dataset, members: int) -> Metrics:
    names = ("crps", "crps_fair", "variance", "mse")
    means = {name: tables[f"{name}_by_date"].astype(float).mean(DATES) for name in names}

    def of(means: dict[str, xr.DataArray]) -> Metrics:
        crps, fair, variance, mse = (means[name].values for name in names)
        return {
            "crps": plain(crps),
            "crps_fair": plain(fair),
            "spread": plain(variance**0.5),
            "rmse": plain(mse**0.5),
            "spread_skill": plain(spread_skill(variance, mse, members)),
        }

    parts = ("share", "probability", "observed")
    return {
        **of({name: mean.mean("lead") for name, mean in means.items()}),
        "by_lead": of(means),
        "rank_histogram": plain(tables["rank_histogram"].values),
        "reliability": {part: plain(tables[f"reliability_{part}"].values) for part in parts},
    }


def _at(scores: xr.DataArray, at: dict[str, str]) -> Any:
    return plain(scores.sel(at).values)
