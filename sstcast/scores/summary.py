"""Computes the contents of `metrics.json` from joined tables, and compares the losses of systems.

All values are plain numbers, or None if undefined.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig
from sstcast.errors import counted
from sstcast.extremes.heatwaves import short_base_period
from sstcast.forecasting.plausible import LIMITS
from sstcast.log import LOG
from sstcast.names import (
    BASE_RATE,
    DAY,
    DEGREES,
    HEATWAVE_KINDS,
    IMPLAUSIBLE,
    INIT_TIME,
    MODEL,
    SCORED_YEARS,
)
from sstcast.ocean.filled_days import shares_on
from sstcast.ocean.prepared import Prepared
from sstcast.predictors.predictors import describe_predictors
from sstcast.progress import tracked
from sstcast.scores.asked import Asked
from sstcast.scores.comparisons import (
    LossComparison,
    date_blocks,
    json_numbers,
    known_systems,
    on_common_dates,
    shares,
)
from sstcast.scores.kinds import KINDS
from sstcast.scores.parts import in_degrees
from sstcast.scores.significance import spacing
from sstcast.scores.system_records import CORRECTED, Records, climatologies, corrected, of_role, run_itself
from sstcast.types import Scores

# The forecaster over which skill by a loss is shown, of other losses the best climatology.
CLIMATOLOGY_OF = dict.fromkeys(HEATWAVE_KINDS, BASE_RATE) | {"rps": SCORED_YEARS}


def metadata(data: DataConfig, tables: xr.Dataset) -> Scores:
    """Describe the verified forecasts: the entries at the head of `metrics.json`."""
    every = spacing(tables[INIT_TIME].values)
    block = date_blocks(tables).block
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
        "ocean_cells": int(tables["mse_by_cell"].isel(units=0, system=0).notnull().any("week").sum()),
        "short_base_period": short_base_period(*data.splits.base),
        "notes": [] if enough else [f"too few dates for intervals, which need at least {2 * block}"],
    }


def assemble(
    tables: xr.Dataset,
    pairs: tuple[Sequence[str], Sequence[str]],
    reference: str,
    systems: Mapping[str, Scores],
    config: DataConfig,
    asked: Asked,
    left_out: int = 0,
    **own: Any,
) -> tuple[xr.Dataset, Scores]:
    """Return the contents of `scores.nc` and of `metrics.json`.

    Args:
        tables: the joined tables of all folds.
        pairs: the systems whose squared errors are tested cell by cell, and those that they are tested against.
        reference: the system with which all others are compared.
        systems: what the systems are, as in `metrics.json`.
        config: the data that were verified.
        asked: what was also verified.
        left_out: how many initial dates were left out, because gaps were filled on them.
        own: entries of the command, in place of those of `metadata` of their names. Its `notes` come first.
    """
    implausible = [*of_implausible(tables)]
    tables = finish(tables.drop_vars(IMPLAUSIBLE, errors="ignore"), *pairs)
    heading = metadata(config, tables)
    own["notes"] = [*own.get("notes", []), *implausible, *heading["notes"]]
    if config.gaps:
        own |= {"dates_left_out": left_out, "filled": _filled(config, tables)}
    metrics = {**own, **heading, **own, "systems": dict(systems)}
    metrics |= summarise(tables, reference, systems, run_itself(metrics))
    asked.describe(metrics)
    return tables, metrics


def _filled(data: DataConfig, tables: xr.Dataset) -> float:
    """Return the share of the sea that was filled on the days of the forecasts."""
    days: NDArray[np.datetime64] = np.unique(tables[INIT_TIME].values[:, None] + tables["lead"].values * DAY)
    return round(float(shares_on(Prepared.of(data), days).mean()), 6)


def of_implausible(tables: xr.Dataset) -> Iterator[str]:
    """Tell on how many dates each run forecasts what is not plausible, if it does."""
    if IMPLAUSIBLE in tables:
        for count in tables[IMPLAUSIBLE].fillna(0):
            if count > 0:
                name = "" if count["system"] == MODEL else f"{count['system'].item()}: "
                yield f"{name}{int(count)} of {counted(tables.sizes[INIT_TIME], 'forecast')}: {LIMITS}"


def warn_of_implausible(where: str, metrics: Scores) -> None:
    """Warn, beginning with `where`, if the scores of a run or a hindcast are of implausible forecasts."""
    told = [note for note in metrics["notes"] if note.endswith(LIMITS)]
    if told:
        LOG.warning(f"{where}: {'; '.join(told)}")


def predictors_of(systems: Mapping[str, DataConfig]) -> Scores:
    """Describe what each system reads besides SST: the entry `predictors`, if any system has some."""
    described = {name: describe_predictors(data) for name, data in systems.items() if data.predictors}
    return {"predictors": described} if described else {}


def lowest_error(tables: xr.Dataset, names: Sequence[str]) -> str:
    """Return the system with the lowest mean squared error among `names`."""
    mean = in_degrees(tables, "mse").sel(system=list(names)).mean((INIT_TIME, "lead"))
    return names[int(np.argmin(mean.values))]


def finish(tables: xr.Dataset, compared: Sequence[str], references: Sequence[str]) -> xr.Dataset:
    """Return the contents of `scores.nc`: the statistics, metrics by cell, and the significance of differences.

    Args:
        tables: the statistics from `join_folds`.
        compared: the systems whose squared errors are tested cell by cell.
        references: the systems against which each of `compared` is tested.
    """
    for kind in tracked(KINDS, "tests of differences"):
        tables = kind.finish(tables, compared, references)
    return tables


def summarise(tables: xr.Dataset, reference: str, systems: Records, itself: str | None) -> Scores:
    """Compute the scores of all systems.

    Args:
        tables: the statistics from `finish`.
        reference: the system with which all others are compared.
        systems: what the systems are, as in `metrics.json`.
        itself: the key of the run itself, or None in a hindcast.

    Returns:
        `reference`, `climate`, `scores`, `probabilities`, `heatwaves`, `indices`, `ensemble`, `ratios` and, if
        there are whole weeks, `terciles` and, if they were verified, `areas`, `points` and `events`.
    """
    names = [str(name) for name in tables["system"].values]
    climates = [name for name in climatologies(systems, itself) if name in names] or [reference]
    losses = [loss for kind in KINDS for name, loss in kind.losses(tables).items() if name in ("mse", "crps")]
    mean = losses[-1].values.sel(system=climates).mean((INIT_TIME, "lead"))
    climate = climates[int(np.argmin(np.nan_to_num(mean.values, nan=np.inf)))]
    scores: Scores = {"reference": reference, "climate": climate}
    for kind in KINDS:
        scores |= kind.section(tables, reference)
    known = reference, climate, lowest_error(tables, climates)
    return scores | {"ratios": _ratios(tables, known, systems, itself)}


def _ratios(tables: xr.Dataset, known: tuple[str, str, str], systems: Records, itself: str | None) -> Scores:
    """Compare each system with the reference and a climatology, and the errors of the run `itself` with all.

    `known` are the reference, the best climatology, and the one with the lowest squared errors, with which these
    are also compared.

    Probabilities that are shares of members are compared by their fair scores, on dates that all systems have.
    """
    losses = {name: loss for kind in KINDS for name, loss in kind.losses(tables).items()}
    reference, climate, climate_of_errors = known
    cells = tables["mse_by_cell"].sel(units=DEGREES, drop=True)
    corrected_pair = corrected(systems, itself or reference), corrected(systems, reference)
    comparisons: Scores = {loss: {} for loss in losses}
    for loss, (field, _, fair) in tracked(losses.items(), "comparisons of systems"):
        names, field = known_systems(field), on_common_dates(field)
        loss_comparison = LossComparison(field)
        values = {name: loss_comparison.loss(field.sel(system=name).values, name in fair) for name in names}
        own = CLIMATOLOGY_OF.get(loss, climate)
        bases = {reference, own, *([climate_of_errors] if loss == "mse" else [])}
        bases |= {key for base in bases for key in of_role(systems, CORRECTED, base)}
        shown_itself = itself if itself in names else None  # a file without a spread has no probabilities
        for name in names:
            by_reference = comparisons[loss][name] = {}
            for base in names:
                if base not in bases and not (name == itself != base and loss == "mse"):
                    continue
                words = (name, base, losses[loss].words_of(name))
                by_reference[base] = found = loss_comparison.compare(values[name], values[base], words)
                shown = _shown_by_lead(loss, (name, base), (reference, own), shown_itself, corrected_pair)
                found["by_lead"] = {key: of for key, of in found["by_lead"].items() if key in shown}
                if loss == "mse" and name in tables["compared"] and base in tables["reference"]:
                    p_fdr = tables["p_fdr"].sel(compared=name, reference=base)
                    by_reference[base] |= shares(p_fdr, cells.sel(system=name) - cells.sel(system=base))
                    by_reference[base]["over_seeds"] = _over_seeds(tables, name, field.sel(system=base))
    return comparisons


def _shown_by_lead(
    loss: str, pair: tuple[str, str], bases: tuple[str, str], itself: str | None, corrected_pair: tuple[str, str]
) -> tuple[str, ...]:
    """Return which parts of a comparison by lead a chart, a table or hindcast.csv shows.

    Args:
        loss: the name of the loss.
        pair: the system and the one that it is compared with.
        bases: the reference and the climatology of the loss.
        itself: the run itself, or None in a hindcast.
        corrected_pair: the run itself and the reference, minus their mean errors.
    """
    (name, base), (reference, climate), is_hindcast = pair, bases, itself is None
    if loss == "mse" and (name == itself or (is_hindcast and base == reference)):
        return "ratio", "interval", "over_folds", "p_value"
    if loss == "mse":
        return ("ratio", "interval") if pair == corrected_pair else ()
    if loss == "crps" and base == climate:
        return ("ratio", "interval") if is_hindcast or name == itself else ("ratio",)
    if is_hindcast and base == reference:
        return ("ratio", "interval") if loss == "crps" else ("ratio",) if loss in HEATWAVE_KINDS else ()
    return ("ratio",) if base == climate and loss not in ("mse_standardised", "rps") else ()


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
