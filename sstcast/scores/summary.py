"""From the tables of a run to `metrics.json`: plain numbers, None where undefined."""

from collections.abc import Callable, Mapping
from typing import Any

import xarray as xr

from sstcast.names import CLIMATE, DATES, DEGREES, MODEL, SEASONS, TRUTH, UNITS
from sstcast.scores import ensembles, heatwaves, probabilities
from sstcast.scores.comparison import compare_errors, plain, shares
from sstcast.scores.metrics import METRICS, statistics

Metrics = dict[str, Any]
Arrays = Mapping[str, xr.DataArray]


def summarise(tables: xr.Dataset, members: int) -> Metrics:
    """Return `scores`, `skill`, `probabilities`, `heatwaves`, `indices`, and `ensemble` if there are members."""
    baselines = [name for name in tables["forecast"].values if name != MODEL]
    return {
        "scores": _scores(tables),
        "skill": {units: {name: _skill(tables, name, units) for name in baselines} for units in UNITS},
        "probabilities": _probabilities(tables),
        "heatwaves": _heatwaves(tables),
        "indices": _indices(tables["index"].astype(float)),
        "ensemble": _ensemble(tables.sel(units=DEGREES, forecast=MODEL), members) if members > 1 else None,
    }


def _scores(tables: xr.Dataset) -> Metrics:
    dates, tiles = ({n: tables[f"{n}_by_{by}"].astype(float) for n in statistics()} for by in ("date", "tile"))

    def metrics(means: Arrays) -> Arrays:
        return {name: metric.of(means) for name, metric in METRICS.items()}

    overall = metrics(_mean(dates, DATES, "lead"))
    parts = {"by_lead": metrics(_mean(dates, DATES)), "by_tile": metrics(_mean(tiles, "lead"))}
    seasons = {}
    for season in SEASONS:
        within = {name: values.where(values["season"] == season) for name, values in dates.items()}
        seasons[season] = metrics(_mean(within, DATES, "lead"))

    def of(**at: str) -> Metrics:
        by_season = {season: _numbers(scores, **at) for season, scores in seasons.items()}
        return {
            **_numbers(overall, **at),
            **{part: _numbers(scores, **at) for part, scores in parts.items()},
            "by_season": {name: {season: of[name] for season, of in by_season.items()} for name in METRICS},
        }

    names = tables["forecast"].values
    return {name: {units: of(forecast=name, units=units) for units in UNITS} for name in names}


def _skill(tables: xr.Dataset, reference: str, units: str) -> Metrics:
    tables = tables.sel(units=units)
    model, other = tables.sel(forecast=MODEL), tables.sel(forecast=reference)
    compared = compare_errors(model["mse_by_date"], other["mse_by_date"])
    if units != DEGREES:
        return compared
    difference = model["mse_by_cell"] - other["mse_by_cell"]
    return compared | shares(tables["p_fdr"].sel(reference=reference), difference)


def _probabilities(tables: xr.Dataset) -> Metrics:
    means = {name: tables[f"gaussian_{name}_by_date"].astype(float) for name in probabilities.NAMES}
    means["mse"] = tables["mse_by_date"].sel(units=DEGREES).astype(float)
    reference = means["crps"].sel(forecast=CLIMATE)

    def of(name: str) -> Metrics:
        found = _by_lead(probabilities.scores, means, forecast=name)
        skill = compare_errors(means["crps"].sel(forecast=name), reference)
        return found | {"pit": plain(tables["pit"].sel(forecast=name).values), "skill": skill}

    known = means["crps"].notnull().any((DATES, "lead"))
    return {name: of(name) for name in tables["forecast"].values[known.values]}


def _heatwaves(tables: xr.Dataset) -> Metrics:
    return {kind: _of_heatwaves(tables.sel(kind=kind)) for kind in tables["kind"].values}


def _of_heatwaves(tables: xr.Dataset) -> Metrics:
    brier = brier_scores(tables)
    names, model = tables["warning"].values, brier.sel(warning=MODEL)
    skill = {name: compare_errors(model, brier.sel(warning=name)) for name in names if name != MODEL}
    return {"scores": score_warnings(tables, tile=tables["heatwave_brier_by_tile"]), "skill": skill}


def brier_scores(tables: xr.Dataset) -> xr.DataArray:
    """Return Brier scores on the initial dates that are scored."""
    return tables["heatwave_brier_by_date"].dropna(DATES, how="all").astype(float)


def score_warnings(tables: xr.Dataset, **more: xr.DataArray) -> Metrics:
    """Return the scores of each method's probabilities of one kind: overall, by part, and `reliability`.

    Args:
        tables: Brier scores by date and lead, and cases by lead, by season and by the parts in `more`.
        more: the Brier score by a further part.
    """
    brier = brier_scores(tables)
    seasons = [brier.where(brier["season"] == season).mean((DATES, "lead")) for season in SEASONS]
    errors = {
        "all": brier.mean((DATES, "lead")),
        "lead": brier.mean(DATES),
        "season": xr.concat(seasons, "season_of_day"),
        **more,
    }
    cases = {part: tables[f"heatwave_cases_by_{part}"] for part in errors if part != "all"}
    cases["all"] = cases["lead"].sum("lead")
    found = {part: {"brier": errors[part], **heatwaves.scores(cases[part])} for part in errors}
    diagram = heatwaves.reliability(cases["all"])

    def of(name: str) -> Metrics:
        part = {part: _numbers(scores, warning=name) for part, scores in found.items()}
        part["season"] = {key: dict(zip(SEASONS, values, strict=True)) for key, values in part["season"].items()}
        parts = {f"by_{by}": scores for by, scores in part.items() if by != "all"}
        return {**part["all"], **parts, "reliability": _numbers(diagram, warning=name)}

    return {str(name): of(name) for name in tables["warning"].values}


def _indices(index: xr.DataArray) -> Metrics:
    truth = index.sel(series=TRUTH)
    mse = ((index - truth) ** 2).mean(DATES)
    overall = {"rmse": mse.mean("lead") ** 0.5, "correlation": xr.corr(index, truth, [DATES, "lead"])}
    by_lead = {"rmse": mse**0.5, "correlation": xr.corr(index, truth, DATES)}

    def of(**at: str) -> Metrics:
        return {**_numbers(overall, **at), "by_lead": _numbers(by_lead, **at)}

    methods = [name for name in index["series"].values if name != TRUTH]
    return {box: {name: of(box=box, series=name) for name in methods} for box in index["box"].values}


def _ensemble(tables: xr.Dataset, members: int) -> Metrics:
    means = {name: tables[f"{name}_by_date"].astype(float) for name in ("crps", "crps_fair", "variance", "mse")}
    return {
        **_by_lead(lambda means: ensembles.scores(means, members), means),
        "rank_histogram": plain(tables["rank_histogram"].values),
    }


def _by_lead(scores: Callable[[Arrays], Arrays], by_date: Arrays, **at: str) -> Metrics:
    """Return the scores that follow from means over dates: over all leads and `by_lead`."""
    overall, by_lead = scores(_mean(by_date, DATES, "lead")), scores(_mean(by_date, DATES))
    return {**_numbers(overall, **at), "by_lead": _numbers(by_lead, **at)}


def _mean(fields: Arrays, *dims: str) -> Arrays:
    return {name: field.mean(dims) for name, field in fields.items()}


def _numbers(scores: Arrays, **at: str) -> Metrics:
    return {name: plain(score.sel(at).values) for name, score in scores.items()}
