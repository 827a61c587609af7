"""Computes the scores in `metrics.json` from statistics, as plain numbers, or None if undefined.

The keys `by_lead`, `by_week`, `by_season`, `by_fold` and `by_index` hold scores of subsets (see docs/runs.md).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig
from sstcast.names import (
    BASE_RATE,
    BIAS_REMOVED,
    CLIMATE,
    DEGREES,
    HEATWAVE_KINDS,
    INIT_TIME,
    MODEL,
    STANDARDISED,
    TERCILE_REFERENCES,
    THIRDS,
)
from sstcast.ocean.heatwaves import short_base_period
from sstcast.ocean.predictors import describe_predictors
from sstcast.ocean.windows import week_starts
from sstcast.scores.comparisons import LossComparison, dates_by_fold, groups, json_numbers, lengths, shares
from sstcast.scores.distributions import ENSEMBLE, GAUSSIAN
from sstcast.scores.indices import thirds
from sstcast.scores.kinds import KINDS, areas, events, heatwaves, terciles
from sstcast.scores.kinds.kind import FOLD
from sstcast.scores.kinds.points import summarise_points
from sstcast.scores.metrics import METRICS, Metric, statistics
from sstcast.scores.score_files import ScoreFiles, climatologies
from sstcast.scores.significance import compare_cells, spacing

Scores = dict[str, Any]
Arrays = Mapping[str, xr.DataArray]
Array = NDArray[np.floating]
LOSSES = {"mse": "mean squared error", "mse_standardised": "standardised mean squared error", "crps": "CRPS"}
LOSSES |= {"rps": "ranked probability score"}
LOSSES |= {kind: f"Brier score ({kind})" for kind in HEATWAVE_KINDS}


def metadata(data: DataConfig, tables: xr.Dataset) -> Scores:
    """Describe the verified forecasts: the entries at the head of `metrics.json`."""
    every = spacing(tables[INIT_TIME].values)
    block = lengths(tables).block
    enough = tables.sizes[INIT_TIME] >= 2 * block
    return {
        "region": data.region if isinstance(data.region, str) else data.box.bounds.yaml,
        "protocol": data.protocol,
        "history": data.history,
        "horizon": tables.sizes["lead"],
        "test": [str(day) for day in data.splits.test],
        "forecasts": tables.sizes[INIT_TIME],
        "every": every,
        "block_days": block * every if enough else None,
        "ocean_cells": int(tables["mse_by_cell"].isel(units=0, system=0, week=0).notnull().sum()),
        "short_base_period": short_base_period(*data.splits.base),
        "notes": [] if enough else [f"too few dates for intervals, which need at least {2 * block}"],
    }


def predictors_of(systems: Mapping[str, DataConfig]) -> Scores:
    """Describe what each system reads besides SST: the entry `predictors`, if any system has some."""
    described = {name: describe_predictors(data) for name, data in systems.items() if data.predictors}
    return {"predictors": described} if described else {}


def best_linear(tables: xr.Dataset, linear: Sequence[str]) -> str:
    """Return the system with the lowest mean squared error among `linear`."""
    mean = _degrees(tables, "mse").sel(system=list(linear)).mean((INIT_TIME, "lead"))
    return linear[int(np.argmin(mean.values))]


def finish(tables: xr.Dataset, compared: Sequence[str], references: Sequence[str]) -> xr.Dataset:
    """Return the contents of `scores.nc`: the statistics, metrics by cell, and the significance of differences.

    Args:
        tables: the statistics from `join_folds`.
        compared: the systems whose squared errors are tested cell by cell.
        references: the systems against which each of `compared` is tested.
    """
    for kind in KINDS:
        tables = kind.finish(tables, compared, references)
    cell_metrics = {metric.name: metric for metric in METRICS.values() if metric.by_cell}
    cells = {name: tables[f"{name}_by_cell"] for name in statistics(cell_metrics)}
    tables = tables.drop_vars([f"{name}_by_cell" for name in cells])
    metric_maps = {f"{name}_by_cell": metric.from_means(cells) for name, metric in cell_metrics.items()}
    tables = tables.assign({name: field.astype(np.float32) for name, field in metric_maps.items()})
    for histogram in {"pit", "rank_histogram"} & set(tables.data_vars):
        (dim,) = set(tables[histogram].dims) - {"system"}
        total = tables[histogram].sum(str(dim))
        tables[histogram] = tables[histogram] / total.where(total > 0)
    by_week = tables["squared_error_by_week"]
    shape = (len(compared), len(references), *by_week.shape[-3:])
    p_value, p_fdr = (np.full(shape, np.nan, np.float32) for _ in range(2))
    systems = list(dict.fromkeys([*compared, *references]))
    positions = [(row, column) for row, column in np.ndindex(shape[:2]) if compared[row] != references[column]]
    pairs = [(systems.index(compared[row]), systems.index(references[column])) for row, column in positions]
    errors = [by_week.sel(system=system, drop=True) for system in systems]
    for position, *values in zip(positions, *_tests_by_cell(errors, pairs, tables), strict=True):
        p_value[position], p_fdr[position] = values
    tables = tables.drop_vars("squared_error_by_week").assign_coords(compared=compared, reference=references)
    dims = ("compared", "reference", "week", "lat", "lon")
    tables = tables.assign(p_value=(dims, p_value), p_fdr=(dims, p_fdr))
    if MODEL in by_week["system"]:
        tables["squared_error_by_week"] = by_week.sel(system=MODEL, drop=True)
    return tables


def summarise(tables: xr.Dataset, reference: str, systems: Mapping[str, Scores]) -> Scores:
    """Compute the scores of all systems.

    Args:
        tables: the statistics from `finish`.
        reference: the system with which all others are compared.
        systems: what the systems are, as in `metrics.json`.

    Returns:
        `reference`, `climate`, `scores`, `probabilities`, `heatwaves`, `indices`, `ensemble`, `ratios` and, if
        there are whole weeks, `terciles` and, if they were verified, `areas`, `points` and `events`.
    """
    names = [str(name) for name in tables["system"].values]
    climates = [name for name in climatologies(systems) if name in names] or [reference]
    gaussian, ensemble = (_by_date(tables, f"{kind}_") for kind in ("gaussian", "ensemble"))
    loss = gaussian["crps"] if "crps" in gaussian else _degrees(tables, "mse")
    mean = loss.sel(system=climates).mean((INIT_TIME, "lead"))
    climate = climates[int(np.argmin(np.nan_to_num(mean.values, nan=np.inf)))]
    probabilistic = _known(gaussian.get("crps"))
    probabilities = _section(gaussian, GAUSSIAN, probabilistic)
    for name in probabilistic:
        probabilities[name]["pit"] = json_numbers(tables["pit"].sel(system=name).values)
    members = _section(ensemble, ENSEMBLE, _known(ensemble.get("crps")))
    for name, scores in members.items():
        ranks = tables["rank_histogram"].sel(system=name)
        scores["rank_histogram"] = json_numbers(ranks.dropna("rank").values)
    return {
        "reference": reference,
        "climate": climate,
        "scores": _scores(tables, names),
        "probabilities": probabilities,
        "heatwaves": {kind: _warnings(tables.sel(kind=kind)) for kind in HEATWAVE_KINDS if "kind" in tables.dims},
        "indices": _indices(tables, names),
        "ensemble": members,
        "ratios": _ratios(tables, reference, climate),
        **_terciles(tables),
        **_areas(tables),
        **summarise_points(tables, reference),
        **({"events": events.scores(tables)} if "severity" in tables.dims else {}),
    }


def summarise_again(
    scored: ScoreFiles, metrics: Scores, reference: str | None = None, index: str | None = None
) -> Scores:
    """Compare all systems with another `reference`, or add separate scores by third of an `index`.

    The scores `by_index` are of the initial dates in each third (see `indices.thirds`).
    """
    if index is None and reference in (None, metrics["reference"]):
        return metrics
    with scored.open() as opened:
        tables = opened.drop_vars("squared_error_by_week", errors="ignore").load()
    if index is not None:
        tables = tables.assign_coords(third=thirds(tables, index))
        metrics = metrics | {"index": index}
    return metrics | summarise(tables, reference or metrics["reference"], metrics["systems"])


def compare_models(tables: xr.Dataset, other_tables: xr.Dataset, names: tuple[str, str]) -> Scores:
    """Compare the squared errors of two runs over the dates that both of their tables have."""
    errors = (_degrees(dataset, "mse").sel(system=MODEL, drop=True) for dataset in (tables, other_tables))
    error, other_error = xr.align(*errors, join="inner", exclude={"lead"})
    cells = xr.align(*(dataset["squared_error_by_week"] for dataset in (tables, other_tables)), join="inner")
    _, (p_fdr,) = _tests_by_cell(cells, [(0, 1)], error)
    difference = cells[0].mean(INIT_TIME).compute() - cells[1].mean(INIT_TIME).compute()
    dates = LossComparison(error)
    losses = dates.loss(error.values), dates.loss(other_error.values)
    return dates.compare(*losses, (*names, LOSSES["mse"])) | shares(difference.copy(data=p_fdr), difference)


def _tests_by_cell(
    errors: Sequence[xr.DataArray], pairs: Sequence[tuple[int, int]], tables: xr.Dataset | xr.DataArray
) -> tuple[Array, Array]:
    """Return p-values and adjusted p-values by cell. All are NaN if there are fewer dates than two blocks."""
    block, lags = lengths(tables)
    p_value, p_fdr = compare_cells(errors, pairs, lags, dates_by_fold(tables))
    enough = tables.sizes[INIT_TIME] >= 2 * block
    return (p_value, p_fdr) if enough else (p_value * np.nan, p_fdr * np.nan)


def _degrees(tables: xr.Dataset, name: str) -> xr.DataArray:
    return tables[f"{name}_by_date"].sel(units=DEGREES, drop=True).astype(float)


def _known(field: xr.DataArray | None) -> list[str]:
    """Return the systems for which `field` has values."""
    if field is None:
        return []
    return [str(name) for name in field["system"].values[field.notnull().any((INIT_TIME, "lead")).values]]


def _by_date(tables: xr.Dataset, prefix: str) -> dict[str, xr.DataArray]:
    return {
        str(name).removeprefix(prefix).removesuffix("_by_date"): tables[name].astype(float)
        for name in tables.data_vars
        if str(name).startswith(prefix) and str(name).endswith("_by_date")
    }


def _scores(tables: xr.Dataset, names: list[str]) -> Scores:
    by_date = {name: tables[f"{name}_by_date"].transpose("system", "units", ...) for name in statistics()}
    parts = _parts(by_date, METRICS)
    return {
        name: {
            units: _numbers(parts, system_index, units_index)
            for units_index, units in enumerate(tables["units"].values)
        }
        for system_index, name in enumerate(names)
    }


def _section(by_date: Arrays, metrics: Mapping[str, Metric], names: list[str]) -> Scores:
    if not names:
        return {}
    parts, systems = _parts(by_date, metrics), by_date["crps"]["system"].values.tolist()
    return {name: _numbers(parts, systems.index(name)) for name in names}


def _parts(by_date: Arrays, metrics: Mapping[str, Metric]) -> Scores:
    """Compute metrics `[...]` from statistics `(..., init_time, lead)`, of all dates and leads and of each part.

    The arrays in `by_lead` and `by_week` have another axis. For other parts, there is one array for each label.
    """
    first = next(iter(by_date.values()))
    weeks = np.split(np.arange(first.sizes["lead"]), week_starts(first["lead"].values)[1:])
    fields = {
        name: field.transpose(..., INIT_TIME, "lead").values.astype(float) for name, field in by_date.items()
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        by_lead = {name: _mean(field, -2) for name, field in fields.items()}
        by_week = {
            name: np.stack([_mean(field[..., week], -1) for week in weeks], -1) for name, field in by_lead.items()
        }
        parts: Scores = _of(metrics, {name: _mean(field) for name, field in fields.items()})
        parts |= {"by_lead": _of(metrics, by_lead), "by_week": _of(metrics, by_week)}
        for part, masks in groups(first).items():
            by_label = {
                label: _of(metrics, {name: _mean(np.where(mask, field, np.nan)) for name, field in fields.items()})
                for label, mask in masks.items()
            }
            parts[part] = {name: {label: scores[name] for label, scores in by_label.items()} for name in metrics}
    return parts


def _mean(values: Array, axis: int | tuple[int, int] = (-2, -1)) -> Array:
    """Return the mean of the values that are not NaN, or NaN if there are none."""
    known = ~np.isnan(values)
    mean: Array = np.where(known, values, 0).sum(axis) / known.sum(axis)
    return mean


def _of(metrics: Mapping[str, Metric], means: Mapping[str, Array]) -> dict[str, Array]:
    return {name: metric.from_means(means) for name, metric in metrics.items()}


def _numbers(scores: Mapping[str, Any], *at: int) -> Scores:
    """Return the scores at a position of the first axes, as numbers for JSON. Dictionaries may be nested."""
    return {
        name: _numbers(values, *at) if isinstance(values, Mapping) else json_numbers(values[at])
        for name, values in scores.items()
    }


def _warnings(tables: xr.Dataset) -> Scores:
    """Return the scores of probabilities of one kind of heatwave, for each system and reference."""
    brier = tables["heatwave_brier_by_date"].dropna(INIT_TIME, how="all").transpose("warning", ...)
    defined = tables["heatwave_defined_by_date"].sel({INIT_TIME: brier[INIT_TIME]}).broadcast_like(brier)
    fields: dict[str, xr.DataArray] = {"brier": brier, "defined": defined}
    metrics: dict[str, Metric] = {"brier": heatwaves.BRIER, "defined": heatwaves.DEFINED}
    if "heatwave_brier_fair_by_date" in tables:
        fair = tables["heatwave_brier_fair_by_date"].sel({INIT_TIME: brier[INIT_TIME]}).transpose(*brier.dims)
        fields |= {"brier_fair": fair, "fair_defined": defined.where(fair.notnull())}
        metrics["brier_fair"] = heatwaves.BRIER_FAIR
    scores = _parts(fields, metrics)
    scores.pop("by_week")
    cases = tables["heatwave_cases_by_lead"].transpose("warning", "lead", ...)
    scores["by_lead"] |= _arrays(heatwaves.scores(cases))
    for part, label in (("season", "season_of_day"), ("fold", FOLD)):
        counts = tables[f"heatwave_cases_by_{part}"].transpose("warning", label, ...)
        labels = [str(value) for value in counts[label].values]
        for name, values in _arrays(heatwaves.scores(counts)).items():
            scores[f"by_{part}"][name] = dict(zip(labels, values.T, strict=True))
    cases = cases.sum("lead")
    scores |= _arrays(heatwaves.scores(cases)) | {"reliability": _arrays(heatwaves.reliability(cases))}
    return {str(name): _numbers(scores, index) for index, name in enumerate(tables["warning"].values)}


def _arrays(scores: Mapping[str, xr.DataArray]) -> dict[str, Array]:
    return {name: field.values for name, field in scores.items()}


def _terciles(tables: xr.Dataset) -> Scores:
    """Return how often each third came, and the scores of their probabilities for each system and reference."""
    if terciles.WHOLE_WEEK not in tables.dims:
        return {}
    by_date = terciles.by_date(tables)
    scores = _parts(by_date, {name: metric for name, metric in terciles.RPS.items() if name in by_date})
    scores.pop("by_lead")
    by_system = {str(name): _numbers(scores, index) for index, name in enumerate(by_date["rps"]["system"].values)}
    by_third = {name: field.transpose("system", "tercile", ...) for name, field in terciles.scores(tables).items()}
    reliability = _arrays(by_third)
    scores = {
        "roc_area": reliability.pop("roc_area"),
        "by_week": {"roc_area": reliability.pop("roc_area_by_week")},
        "reliability": reliability,
    }
    for index, name in enumerate(map(str, tables["system"].values)):
        by_system[name] |= {third: _numbers(scores, index, number) for number, third in enumerate(THIRDS)}
    observed, defined = (
        tables[f"tercile_{name}_by_date"].astype(float).sum(INIT_TIME) for name in ("observed", "defined")
    )
    rates = {
        "all": observed.sum(terciles.WHOLE_WEEK) / defined.sum(terciles.WHOLE_WEEK),
        "by_week": observed / defined,
    }
    came = {part: {t: json_numbers(rate.sel(tercile=t)) for t in THIRDS} for part, rate in rates.items()}
    return {"terciles": {"observed": came.pop("all") | came, "scores": by_system}}


def _areas(tables: xr.Dataset) -> Scores:
    """Return the scores of the means of areas, and of their shares in a heatwave, by area and system."""
    if "area" not in tables.dims:
        return {}
    brier = tables["area_brier_by_date"].transpose("system", "area", "share", ...)
    fields = {name: of.transpose("system", "area", ...) for name, of in _by_date(tables, "area_").items()}
    means = {name: of for name, of in fields.items() if name != "brier"}
    is_scored = means["crps"].notnull().any(means["crps"].dims[1:]).values
    parts, brier_parts = _parts(means, areas.MEANS), _parts({"brier": brier}, areas.BRIER)
    scores_by_area: Scores = {}
    for area_index, area in enumerate(map(str, tables["area"].values)):
        by_system = scores_by_area[area] = {}
        for index in np.flatnonzero(is_scored).tolist():
            by_share = {
                str(share): _numbers(brier_parts, index, area_index, number)
                for number, share in enumerate(tables["share"].values)
            }
            by_system[str(tables["system"].values[index])] = _numbers(parts, index, area_index) | {
                "share": by_share
            }
    return {"areas": scores_by_area}


def _indices(tables: xr.Dataset, names: list[str]) -> Scores:
    index, truth = tables["index"].astype(float), tables["observed_index"].astype(float)
    mse = ((index - truth) ** 2).mean(INIT_TIME)
    scores = {"rmse": mse.mean("lead") ** 0.5, "correlation": xr.corr(index, truth, [INIT_TIME, "lead"])}
    by_lead = {"rmse": mse**0.5, "correlation": xr.corr(index, truth, INIT_TIME)}
    parts = {name: field.transpose("box", "system").values for name, field in scores.items()} | {
        "by_lead": {name: field.transpose("box", "system", "lead").values for name, field in by_lead.items()}
    }
    boxes = [str(box) for box in tables["box"].values]
    return {
        box: {name: _numbers(parts, box_index, system_index) for system_index, name in enumerate(names)}
        for box_index, box in enumerate(boxes)
    }


def _ratios(tables: xr.Dataset, reference: str, climate: str) -> Scores:
    """Compare each system with the reference, climatologies and base rate, and the model with every system.

    Probabilities that are shares of members are compared by their fair scores.
    """
    losses = {
        "mse": _degrees(tables, "mse"),
        "mse_standardised": tables["mse_by_date"].sel(units=STANDARDISED, drop=True).astype(float),
    }
    fair: dict[str, list[str]] = {}  # by loss, the systems that have fair scores
    if "gaussian_crps_by_date" in tables:
        losses["crps"] = tables["gaussian_crps_by_date"].astype(float)
    if "kind" in tables.dims:
        tested = ("heatwave_brier_by_date", "heatwave_brier_fair_by_date")
        briers = [tables[name].astype(float).rename(warning="system") for name in tested if name in tables]
        for kind in HEATWAVE_KINDS:
            losses[kind], fair[kind] = _fair(*(brier.sel(kind=kind, drop=True) for brier in briers))
    if terciles.WHOLE_WEEK in tables.dims:
        by_date = terciles.by_date(tables)
        rps, fair["rps"] = _fair(by_date["rps"], by_date.get("rps_fair"))
        days = {name: tables[name] for name in ("valid_time", "season")}
        losses["rps"] = rps.reindex(lead=tables["lead"]).assign_coords(days)
    cells = tables["mse_by_cell"].sel(units=DEGREES, drop=True)
    comparisons: Scores = {loss: {} for loss in losses}
    for loss, field in losses.items():
        names, field = _known(field), field.dropna(INIT_TIME, how="all").transpose("system", INIT_TIME, "lead")
        loss_comparison = LossComparison(field)
        values = {name: loss_comparison.loss(field.sel(system=name).values) for name in names}
        bases = {base for base in names if base.removesuffix(BIAS_REMOVED).partition(" (")[0] == CLIMATE}
        bases |= {reference, climate, BASE_RATE, *TERCILE_REFERENCES, f"{reference}{BIAS_REMOVED}"}
        for name in names:
            by_reference = comparisons[loss][name] = {}
            for base in (base for base in names if base != MODEL and (name == MODEL or base in bases)):
                title = f"fair {LOSSES[loss]}" if name in fair.get(loss, []) else LOSSES[loss]
                by_reference[base] = loss_comparison.compare(values[name], values[base], (name, base, title))
                if loss == "mse" and name in tables["compared"] and base in tables["reference"]:
                    p_fdr = tables["p_fdr"].sel(compared=name, reference=base)
                    by_reference[base] |= shares(p_fdr, cells.sel(system=name) - cells.sel(system=base))
                    by_reference[base]["over_seeds"] = _over_seeds(tables, name, field.sel(system=base))
    return comparisons


def _fair(scores: xr.DataArray, fair: xr.DataArray | None = None) -> tuple[xr.DataArray, list[str]]:
    """Replace scores by the `fair` scores of the systems that have them, whose names are returned as well."""
    names = _known(fair)
    return scores if fair is None else scores.where(~scores["system"].isin(names), fair), names


def _over_seeds(tables: xr.Dataset, name: str, reference_error: xr.DataArray) -> list[float] | None:
    """Return the ratio of each member's mean squared error to the reference's, or None for a single run.

    The reference's mean is over the dates that the member has.
    """
    if "member_mse_by_date" not in tables:
        return None
    member_errors = tables["member_mse_by_date"].sel(system=name).astype(float).dropna("member", how="all")
    mean = reference_error.where(member_errors.notnull()).mean((INIT_TIME, "lead"))
    ratios: list[float] = json_numbers((member_errors.mean((INIT_TIME, "lead")) / mean).values)
    return ratios or None
