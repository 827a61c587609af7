"""The command `score`: scores the forecasts in any file in the same way as a run's."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sstcast._version import __version__
from sstcast.config import DataConfig, FieldSource, Region, load_config, load_region, parse_box
from sstcast.errors import SSTCastError
from sstcast.forecasting.spread import SpreadCalibrator, calibrated
from sstcast.forecasting.system import system_of
from sstcast.forecasting.transfer import OWN, continued, data_of, splits_to_score
from sstcast.geo import Box
from sstcast.log import LOG
from sstcast.names import (
    BASELINES,
    DAY,
    DEFAULT_REFERENCE,
    LINEAR_BASE,
    MODEL,
    REFERENCES,
    SCORED_YEARS,
    TRUTH,
)
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.splits import for_dates
from sstcast.reading.any_grid import proposed
from sstcast.reading.daily_field import source_of
from sstcast.reading.fields import CELLS
from sstcast.reading.flags import tell_invalid
from sstcast.reading.forecast_files import Forecasts, read_forecasts
from sstcast.reading.grid import around
from sstcast.reading.reading import open_sst
from sstcast.reading.sea import until_last_value
from sstcast.runs import Run
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.bias import NEARBY_DAYS, note_of, without_bias, years_of
from sstcast.scores.evaluate import OCEAN_KEYS, check_same
from sstcast.scores.joining import join_folds
from sstcast.scores.kinds.points import check_observations
from sstcast.scores.matching import FileForecasts, FileSpread, Matched, matched, span, within
from sstcast.scores.scene import Scene
from sstcast.scores.score_files import ScoreFiles, comparison, recipe_of_scores
from sstcast.scores.scored_days import digest_of_scored
from sstcast.scores.summary import assemble
from sstcast.scores.system_records import AGAINST, CORRECTED, RUN, corrected, key_corrected, of_role, record
from sstcast.scores.systems import ScoredSystem, baselines
from sstcast.scores.time_means import MeansOfDays, SpreadOfWeeks
from sstcast.scores.verify import verify
from sstcast.storage.artefacts import change_times, digest, fingerprint, locked, note_source
from sstcast.storage.yaml_files import validate
from sstcast.training.data_record import check_data

HISTORY = 42  # days of history for the baselines, unless a run gives another number
MIN_PAST_DAYS = 730  # days of observations needed before the first forecast, for climatology and baselines
READING = (
    2  # version of the rules by which days and cells of files are found; files are scored again if it changes
)


def score(
    path: Path,
    truth: FieldSource = OWN,
    against: Sequence[Run] = (),
    out: Path | None = None,
    variable: str | None = None,
    units: str | None = None,
    leads: int | None = None,
    remove_bias: bool = False,
    asked: Asked = NOTHING,
) -> tuple[dict[str, Any], ScoreFiles, bool]:
    """Score the forecasts in a file beside the baselines, and write `scores.nc` and `metrics.json`.

    Args:
        path: a NetCDF file, a Zarr store, or a folder of these (see `sstcast.reading.forecast_files`).
        truth: a source of daily temperatures, or a YAML file that names one, by default the first run's. Its
            region is by default the run's, or all cells of the truth that the file covers. `data_to_score`
            describes how the data follow from `truth` and `against`.
        against: runs that forecast the same days, as further references.
        out: the output folder. By default, it is beside the file, with `-scores` appended to the file's name.
        variable, units: name and unit of the temperatures, for files that do not state them.
        leads: score only this many days ahead.
        remove_bias: also score all systems minus their mean errors in other years (see `scores.bias`).
        asked: what is also scored. A place counts if half of it lies in the scored cells.

    Returns:
        The metrics, the folder, and False if the folder held these metrics already.

    Raises:
        SSTCastError: the file, truth, region or runs are unusable, or do not fit together.
    """
    path = path if path.name else path.resolve()  # `.` has no name
    scored = ScoreFiles(
        path.with_name(f"{path.name}-scores") if out is None else out if out.name else out.resolve()
    )
    inside = scored.folder.resolve().is_relative_to(path.resolve())
    if inside or Run(scored.folder).config_file.exists() or scored.folder.is_file():
        raise SSTCastError(
            f"--out {scored.folder}: is a file, a run's folder, or inside {path}; name another folder"
        )
    scored.check_own()
    times = change_times(path)
    forecasts = read_forecasts(path, variable, units, means=True)
    if remove_bias and forecasts.mean_of > 1:
        raise SSTCastError(f"--remove-bias: {path} holds means of {forecasts.mean_of} days; leave it out")
    file_leads = forecasts.sst["lead"].values
    horizons = [int(file_leads[-1]), *(run.config.data.horizon for run in against), *filter(None, [leads])]
    if (horizon := min(horizons)) < file_leads[0]:
        raise SSTCastError(
            f"{path}: the first lead is {file_leads[0]} days, but only {horizon} days ahead are scored; increase "
            "--leads, or choose other forecasts"
        )
    data = data_to_score(forecasts, truth, against, horizon)
    prepared = prepare(data)
    for run in against:
        if (run.config.data.source, run.config.data.box) == (data.source, data.box):
            check_data(run)
    recipe = recipe_of_scores(data) | {
        "sstcast": __version__,
        "file": fingerprint(path),
        "read_as": [variable, units],
        "reading": READING,
        "data": data.model_dump(mode="json") | {"region": data.cells},
        "record": prepared.record().model_dump(),
        **digest_of_scored(prepared),
        "against": {str(run.folder): run.digest for run in against},
        "remove_bias": remove_bias,
        **asked.recipe,
    }
    with locked(scored.folder):
        if (metrics := scored.known(recipe)) is not None and scored.are_of(path):
            return metrics, scored, False
        scored.folder.mkdir(exist_ok=True)
        content = digest(path)
        try:
            metrics = _score(forecasts, prepared, against, scored, recipe, asked)
        finally:
            tell_invalid(path, forecasts.ranges)
        note_source(scored.metrics, times, content)
        return metrics, scored, True


def _systems(
    path: Path, found: Matched, prepared: Prepared, against: Sequence[Run]
) -> tuple[dict[str, ScoredSystem], dict[str, str]]:
    """Return the forecasts of a file as `MODEL` and the systems beside them, and the names of runs by folder."""
    sst, spread, truth, data = found.sst, found.spread, found.truth, prepared.data
    references = baselines(SpreadCalibrator(prepared))
    of_file = FileForecasts(path, sst, truth.statistics, data, truth.mean_of)
    issued = ScoredSystem(of_file, members=sst.sizes["member"], as_issued=True)
    if found.has_spread and spread is None and issued.members == 1:
        issued = issued._replace(has_probabilities=False)
    if spread is not None and (reference_spread := references[DEFAULT_REFERENCE].spread) is not None:
        issued = issued._replace(spread=FileSpread(spread, reference_spread.correlation, path))
    names = {}
    for run in against:
        name = _name(run.folder, {MODEL, *references})
        of_run = Prepared.of(data.model_copy(update={"horizon": run.config.data.horizon}))
        label = None if name == run.label else run.label
        references[name] = ScoredSystem(
            system_of(run, of_run), calibrated(run, of_run), len(run.members), role=AGAINST, label=label
        )
        names[str(run.folder)] = name
    if truth.mean_of > 1:
        references = {
            name: scored._replace(system=MeansOfDays(scored.system, truth), as_issued=True)
            for name, scored in references.items()
        }
    if truth.weekly:
        references = {
            name: scored._replace(spread=scored.spread and SpreadOfWeeks.of(scored.spread))
            for name, scored in references.items()
        }
    elif not truth.daily:
        issued = issued._replace(spread=None)
        references = {name: system._replace(spread=None) for name, system in references.items()}
    return {MODEL: issued, **references}, names


def _score(
    forecasts: Forecasts,
    prepared: Prepared,
    against: Sequence[Run],
    scored: ScoreFiles,
    recipe: dict[str, Any],
    asked: Asked,
) -> dict[str, Any]:
    path, data = forecasts.path, prepared.data
    found = matched(forecasts, prepared, asked)
    truth, asked, notes, dates = found.truth, found.asked, found.notes, found.truth.windows.init_times
    for note in notes:
        LOG.info(f"{path}: {note}")
    check_observations([truth], asked)
    systems, names = _systems(path, found, prepared, against)
    if remove_bias := recipe["remove_bias"]:
        systems |= without_bias(systems, truth)
        notes.append(note_of(truth))
        LOG.info(f"{path}: {notes[-1]}")
    verified = verify(Scene(truth, systems, asked), path.name)
    of_file = record(RUN, model="forecasts of a file", members=found.sst.sizes["member"], trained_on=None)
    records = {name: of_file if name == MODEL else scored.record for name, scored in systems.items()}
    tables, metrics = assemble(
        join_folds([verified]),
        ([MODEL, *of_role(records, CORRECTED, MODEL)], [name for name in systems if name != MODEL]),
        DEFAULT_REFERENCE,
        records,
        data,
        asked,
        found.left_out,
        kind="file",
        file=str(path.absolute()),
        source=source_of(data.source).called(str(prepared.open_cube().attrs["source"])),
        data=recipe["record"],
        test=[str(found.first_day), str((dates[-1] + truth.leads[-1] * DAY).astype("datetime64[D]"))],
        notes=notes,
        references=names,
    )
    for note in metrics["notes"][len(notes) :]:
        LOG.info(f"{path}: {note}")
    notes = metrics["notes"]
    if remove_bias:
        metrics["bias_removed"] = {"nearby_days": NEARBY_DAYS, "years": years_of(truth)}
        pair = (corrected(records, name) for name in (MODEL, DEFAULT_REFERENCE))
        notes.append(comparison(metrics, "mse", *pair)["sentence"])
        LOG.info(f"{path}: {notes[-1]}")
    attributes = {"title": f"Scores of {path.name}", "comment": "; ".join(notes)}
    return scored.write(tables, metrics, recipe, data.protocol, **attributes)


def _name(folder: Path, taken: Collection[str]) -> str:
    """Return the name of a run in tables: that of its folder, or its path if another row has that name."""
    reserved = {*taken, *BASELINES, LINEAR_BASE, TRUTH, *REFERENCES, SCORED_YEARS}
    keys = {*reserved, *map(key_corrected, reserved)}
    names = (folder.name, str(folder))
    return [*(name for name in names if keys.isdisjoint((name, key_corrected(name)))), str(folder.resolve())][0]


def data_to_score(forecasts: Forecasts, truth: FieldSource, against: Sequence[Run], horizon: int) -> DataConfig:
    """Return the data configuration that forecasts are scored with, up to `horizon` days ahead.

    With `against`, it is the first run's, transferred to the source or region that `truth` gives. If `truth` is a
    YAML file, it is that file's. If `truth` is a source, the baselines have 42 days of history, and climatology
    and baselines are fitted to all days before the history of the first forecast. Penalties are chosen on the last
    two years of these days, or on their last fifth if that is shorter.

    Raises SSTCastError if any of these is unusable, the runs have different oceans, or no forecast has two years
    of truth before it and truth on all its days.
    """
    truth = continued(against[0], truth) if against else truth
    settings = truth.given
    is_config = "source" in settings and truth.source.endswith((".yaml", ".yml"))
    if not against:
        if "source" not in settings:
            raise SSTCastError("--truth: name the observations, a source of daily temperatures")
        data = load_config(truth.path).data if is_config else _data_of_file(forecasts, truth, horizon)
        if is_config and "region" in settings:
            with open_sst(data) as observed:
                data = data.model_copy(update={"region": _place(forecasts, observed, settings["region"])})
    else:
        if is_config:
            raise SSTCastError(
                f"--truth {truth.source}: a run has its own configuration; name a source of observations instead"
            )
        first_run, *other_runs = against
        for run in other_runs:
            check_same(first_run, run, ("source", *OCEAN_KEYS), {}, "compare runs of one ocean")
        data = data_of(first_run, truth)
        data = data.model_copy(update={"splits": splits_to_score(first_run, data)})
    return data.model_copy(update={"horizon": horizon})


def _data_of_file(forecasts: Forecasts, truth: FieldSource, horizon: int) -> DataConfig:
    path, source = truth.path, source_of(truth.source)
    if not (source.needs_python or source.exists()):
        raise SSTCastError(f"--truth {truth.source}: no such file or folder")
    with open_sst(truth) as observed:
        known = observed if source.checked else until_last_value(observed, path)
        days, dates = known["time"].values, forecasts.sst["init_time"].values
    scored = within(dates, days[0] + (MIN_PAST_DAYS + 1) * DAY, days[-1], HISTORY, horizon)
    if not len(scored):
        raise SSTCastError(
            f"{forecasts.path}: none of its {len(dates)} forecasts, {span(dates)}, can be verified for {horizon} "
            f"days with {path}, which holds {span(days)}: a forecast needs observations on all its days, and "
            f"{MIN_PAST_DAYS} days of climatology and {HISTORY} of history before; give another --truth or --leads"
        )
    first, initial, last = (day.astype("M8[D]").item() for day in (days[0], scored[0], scored[-1] + horizon * DAY))
    raw = {
        "source": truth.source,
        "region": _place(forecasts, observed, truth.given.get("region")),
        "history": HISTORY,
        "horizon": horizon,
        "splits": for_dates(first, initial, last, HISTORY, horizon),
    }
    return validate(DataConfig, raw, f"--truth {truth.source}")


def _place(forecasts: Forecasts, observed: xr.DataArray, region: str | None) -> str | Region:
    """Return the named region, or a region of one tile: a box, or all cells of the truth that the file covers."""
    if region is not None and "," not in region and region != "global":
        load_region(region)
        return region
    sst = forecasts.sst
    if region is not None:
        box = parse_box(region)
    elif CELLS in sst.attrs:
        box = proposed(sst.attrs[CELLS].grid(forecasts.path))[1].bounds
    else:
        box = Box.of({"lat": sst["lat"], "lon": around(sst["lon"].values)})
    inside = box.contains(observed["lat"], observed["lon"])
    lat = observed["lat"].values[inside.any("lon").values]
    lon = np.sort(box.eastward(observed["lon"].values[inside.any("lat").values]))
    if min(len(lat), len(lon)) < 2:
        truth = Box.of({"lat": observed["lat"], "lon": around(observed["lon"].values)})
        owner, option = ("the forecasts', ", "--truth") if region is None else ("", "--region")
        raise SSTCastError(
            f"{forecasts.path}: the truth's box, {truth}, shares fewer than two rows or columns with {owner}{box}"
            f"; give another {option}"
        )
    cells = Box.of({"lat": lat, "lon": lon})
    return Region(
        lon=(cells.west, cells.east),
        lat=(max(cells.south, -90.0), min(cells.north, 90.0)),
        tile=(len(lat), len(lon)),
        land_tiles="keep",
    )
