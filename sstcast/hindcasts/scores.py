"""The errors of all folds and systems as one: tables, and the scores that follow from them.

Initial dates are some days apart, and folds have gaps between them: lengths in days become numbers of dates, and
neither blocks nor lags reach from one fold into the next (`sstcast.scores.significance`).
"""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import BASE_RATE, COVERED, DATES, REFERENCES, SEASONS
from sstcast.scores import probabilities
from sstcast.scores.comparison import plain, shares
from sstcast.scores.means import weekly
from sstcast.scores.significance import Lengths, adjust, diebold_mariano, means, p_values, ratio, spacing
from sstcast.scores.summary import brier_scores, score_warnings
from sstcast.scratch import in_scratch

STATISTICS = ("mse", *probabilities.NAMES)  # what is kept of each date and lead
CASES = ("heatwave_cases_by_lead", "heatwave_cases_by_season")
WARNINGS = ("heatwave_brier_by_date", *CASES)  # what is kept of the probabilities of heatwaves
HEATWAVE_COLUMNS = ("brier", "ratio", "skill")
SHORTEST_BLOCK = 60  # days

Array = NDArray[np.floating]
Scores = dict[str, Any]


def lengths(horizon: int, every: int) -> Lengths:
    """Return the lengths for dates `every` days apart; blocks of `SHORTEST_BLOCK` days at least."""
    return Lengths.of(horizon, every, SHORTEST_BLOCK)


def best_linear(mse: xr.DataArray, linear: list[str]) -> str:
    """Return which of the linear systems has the lowest `mse(system, init_time, lead)`."""
    mean = mse.sel(system=linear).astype(float).mean((DATES, "lead"))
    return linear[int(np.argmin(mean.values))]


def tabulate(errors: xr.Dataset, reference: str, every: int) -> xr.Dataset:
    """Reduce errors to what scores and maps follow from; memory holds a row of cells of one lead week at a time.

    Args:
        errors: `STATISTICS(system, init_time, lead)` and, lazy, `squared_error_by_week(system, init_time, week,
            lat, lon)` in degC2, with the coordinates `fold(init_time)` and `valid_time(init_time, lead)`; and
            `WARNINGS`, with the cases by fold.
        reference: the system that the others are compared with, cell by cell.
        every: days from date to date.
    """
    lags, parts = lengths(errors.sizes["lead"], every).lags, dates_by_fold(errors)
    by_week = errors["squared_error_by_week"].transpose("system", "week", DATES, "lat", "lon")
    shape = by_week.isel({DATES: 0}).shape
    mean, p_value, p_fdr = (np.full(shape, np.nan, np.float32) for _ in range(3))
    for week in range(shape[1]):
        base = in_scratch(by_week.sel(system=reference).isel(week=week)).values
        for system, name in enumerate(by_week["system"].values):
            own = base if name == reference else in_scratch(by_week.isel(system=system, week=week)).values
            mean[system, week] = means(own)
            if name != reference:
                p_value[system, week] = p_values(own, base, np.isfinite(base[0]), lags, parts)
                p_fdr[system, week] = adjust(p_value[system, week])
    cells = ("system", "week", "lat", "lon")
    tables = errors[[*STATISTICS, *WARNINGS, "heatwave_cases_by_fold"]].load()
    tables = tables.assign(mse_by_cell=(cells, mean), p_value=(cells, p_value), p_fdr=(cells, p_fdr))
    axes = {axis: errors[axis] for axis in ("week", "lat", "lon")}
    return tables.assign_coords(axes).assign_coords(season=tables["valid_time"].dt.season)


def summarise(tables: xr.Dataset, reference: str, every: int) -> dict[str, Scores]:
    """Return the scores of every system by name, best first: `mse`, `ratio` to that of `reference`, and its
    95 % `interval`, over all leads and `by_lead`, `by_week`, `by_season` (of the day forecast) and `by_fold`;
    the Diebold-Mariano `p_value`; the shares of cells, by week, that are significantly `better` and `worse`; and
    the scores of its distributions as `probabilities` (see `_distributions`).
    """
    mse = tables["mse"].transpose("system", DATES, "lead").astype(float)
    block, lags = lengths(mse.sizes["lead"], every)
    parts = dates_by_fold(tables)
    order = np.argsort(mse.mean((DATES, "lead")).values)
    found = {}
    for name in map(str, mse["system"].values[order]):
        ours, theirs = mse.sel(system=name), mse.sel(system=reference)
        values, base = ours.values, theirs.values
        difference = tables["mse_by_cell"].sel(system=name) - tables["mse_by_cell"].sel(system=reference)
        found[name] = {
            **_compare(values.mean(1), base.mean(1), block, parts),
            "p_value": plain(diebold_mariano((values - base).mean(1), lags, parts)),
            "by_lead": _compare(values, base, block, parts),
            "by_week": _compare(weekly(values, 1), weekly(base, 1), block, parts),
            "by_season": {season: _of_season(ours, theirs, season, block, parts) for season in SEASONS},
            "by_fold": {
                str(fold): _compare(values[of].mean(1), base[of].mean(1), block, (int(of.sum()),))
                for fold in np.unique(tables["fold"])
                for of in [tables["fold"].values == fold]
            },
            **shares(tables["p_fdr"].sel(system=name), difference),
            "probabilities": _distributions(tables, name, reference, block),
        }
    return found


def _distributions(tables: xr.Dataset, name: str, reference: str, block: int) -> Scores:
    """Return the scores of a system's distributions over all leads, `by_lead` and `by_fold`.

    They are those of `sstcast.scores.probabilities`; `ratio` of the CRPS to that of `reference`, and its 95 %
    `interval`; and `skill`, the share of the CRPS of the climatology that the system saves.
    """
    tables = tables[list(STATISTICS)].transpose("system", DATES, "lead").astype(float)
    climate = next((other for other in map(str, tables["system"].values) if other.startswith("climatology")), None)

    def scores(dates: NDArray[np.bool_], *dims: str) -> Scores:
        part = tables.isel({DATES: dates}).mean(dims)
        crps = part["crps"].sel(system=[name, reference]).values
        compared = _compare(crps[0], crps[1], block, dates_by_fold(part))
        mean = part.mean(DATES)
        skill = 1 - mean["crps"].sel(system=name) / mean["crps"].sel(system=climate) if climate else np.nan
        own = probabilities.scores({key: mean[key].sel(system=name) for key in STATISTICS})
        numbers = {key: plain(value.values) for key, value in own.items()}
        return numbers | {"ratio": compared["ratio"], "interval": compared["interval"], "skill": plain(skill)}

    folds = tables["fold"].values
    return {
        **scores(folds == folds, "lead"),
        "by_lead": scores(folds == folds),
        "by_fold": {str(fold): scores(folds == fold, "lead") for fold in np.unique(folds)},
    }


def score_heatwaves(tables: xr.Dataset, systems: list[str], reference: str) -> Scores:
    """Return by kind, as in `metrics.json`, the `scores` of the heatwave probabilities of systems and references.

    Besides those of `evaluate`, overall, by lead and by fold: `ratio` of the Brier score to that of the system
    `reference`, its 95 % `interval`, and `skill`, the share of the Brier score of the base rate that is saved.
    """
    tables = tables.sel(warning=[*systems, *REFERENCES])
    return {str(kind): {"scores": _warnings(tables.sel(kind=kind), reference)} for kind in tables["kind"].values}


def _warnings(tables: xr.Dataset, reference: str) -> Scores:
    brier = brier_scores(tables).transpose("warning", DATES, "lead")
    block = lengths(brier.sizes["lead"], spacing(brier[DATES].values)).block
    within = {str(fold): brier["fold"].values == fold for fold in np.unique(brier["fold"])}
    by_fold = xr.concat([brier[:, dates].mean((DATES, "lead")) for dates in within.values()], "test_fold")
    found = score_warnings(tables, fold=by_fold)
    for name, of in found.items():
        ours, theirs, base = (brier.sel(warning=which).values for which in (name, reference, BASE_RATE))

        def compared(*arrays: Array, parts: tuple[int, ...] = dates_by_fold(brier)) -> Scores:
            ours, theirs, base = arrays
            scores = _compare(ours, theirs, block, parts)
            with np.errstate(divide="ignore", invalid="ignore"):
                skill = plain(1 - ours.sum(0) / base.sum(0))
            return {"ratio": scores["ratio"], "interval": scores["interval"], "skill": skill}

        of |= compared(*(one.mean(1) for one in (ours, theirs, base)))
        of["by_lead"] |= compared(ours, theirs, base)
        each = [
            compared(*(one[dates].mean(1) for one in (ours, theirs, base)), parts=(int(dates.sum()),))
            for dates in within.values()
        ]
        numbers = of["by_fold"] | {key: [part[key] for part in each] for key in each[0]}
        of["by_fold"] = {key: dict(zip(within, values, strict=True)) for key, values in numbers.items()}
    return found


def dates_by_fold(tables: xr.Dataset | xr.DataArray) -> tuple[int, ...]:
    """Return how many dates each fold has."""
    return tuple(np.unique(tables["fold"], return_counts=True)[1].tolist())


def _of_season(
    ours: xr.DataArray, theirs: xr.DataArray, season: str, block: int, parts: tuple[int, ...]
) -> Scores:
    inside = (ours["season"] == season).transpose(DATES, "lead").values
    sums = [np.where(inside, error.values, 0).sum(1) for error in (ours, theirs)]
    days = inside.sum() / len(inside)  # of a forecast in the season, on average: sums over it are then means
    if not days:
        return {"mse": None, "ratio": None, "interval": [None, None]}
    return _compare(sums[0] / days, sums[1] / days, block, parts)


def _compare(error: Array, reference: Array, block: int, parts: tuple[int, ...]) -> Scores:
    """Compare losses `[dates, ...]`: means, their ratio, and its interval where two blocks fit."""
    of_sums, ends = ratio(error, reference, block, parts)
    return {"mse": plain(error.mean(0)), "ratio": plain(of_sums), "interval": plain(ends)}


def rows(metrics: Scores) -> list[list[Any]]:
    """Return the scores as a table: a header, and a row for each system and part.

    Distributions have no scores by week and season.
    """
    table: list[list[Any]] = [["system", "model", "members", "part", "mse_degC2", "ratio", "low", "high"]]
    table[0] += ["crps_degC", "crps_ratio", "crps_low", "crps_high", "crps_skill", *COVERED]
    table[0] += [f"{kind}_{key}" for kind in metrics["heatwaves"] for key in HEATWAVE_COLUMNS]
    for name, of in metrics["systems"].items():
        listed = {f"lead {i}": _at(of["by_lead"], i - 1) for i in range(1, len(of["by_lead"]["mse"]) + 1)}
        listed |= {f"week {i}": _at(of["by_week"], i - 1) for i in range(1, len(of["by_week"]["mse"]) + 1)}
        listed |= {f"season {season}": part for season, part in of["by_season"].items()}
        listed |= {f"fold {fold}": part for fold, part in of["by_fold"].items()}
        own = of["probabilities"]
        dressed = {"all": own} | {f"fold {fold}": part for fold, part in own["by_fold"].items()}
        leads = range(len(of["by_lead"]["mse"]))
        dressed |= {f"lead {i + 1}": {key: own["by_lead"][key][i] for key in own["by_lead"]} for i in leads}
        for part, scores in ({"all": of} | listed).items():
            numbers = [scores["mse"], scores["ratio"], *scores["interval"]]
            if (more := dressed.get(part)) is not None:
                numbers += [more["crps"], more["ratio"], *more["interval"], more["skill"]]
                numbers += [more[key] for key in COVERED]
                for kind in metrics["heatwaves"].values():
                    numbers += _of_part(kind["scores"][name], part)
            table.append([name, of["model"], of["members"], part, *numbers])
    return table


def _of_part(scores: Scores, part: str) -> list[float | None]:
    """Return the `HEATWAVE_COLUMNS` of `all`, of a lead or of a fold."""
    if part == "all":
        return [scores[key] for key in HEATWAVE_COLUMNS]
    by, which = part.split()
    found = scores[f"by_{by}"]
    return [found[key][int(which) - 1 if by == "lead" else which] for key in HEATWAVE_COLUMNS]


def _at(scores: Scores, position: int) -> Scores:
    return {key: scores[key][position] for key in ("mse", "ratio", "interval")}
