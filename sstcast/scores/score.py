"""The command `score`: scores the forecasts in any file in the same way as a run's."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig, FieldSource, Region, load_config, load_region, parse_box
from sstcast.errors import SSTCastError, counted
from sstcast.forecasting.fields import FIELD
from sstcast.forecasting.spread import Spread, SpreadCalibrator, calibrated
from sstcast.forecasting.system import ForecastSystem, system_of
from sstcast.forecasting.transfer import OWN, continued, transferred_data
from sstcast.geo import Box
from sstcast.log import LOG
from sstcast.names import BASELINES, BIAS_REMOVED, DEFAULT_REFERENCE, MODEL, REFERENCES, TERCILE_REFERENCES, TRUTH
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.splits import for_dates
from sstcast.reading.daily_field import source_of
from sstcast.reading.days_of_year import on_days
from sstcast.reading.forecast_files import DAY, REMEDY, Forecasts, mean_of_days, read_forecasts
from sstcast.reading.grid import around
from sstcast.reading.reading import open_sst
from sstcast.reading.regrid import on_cells
from sstcast.reading.regridding import Regridder
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.bias import NEARBY_DAYS, note_of, without_bias, years_of
from sstcast.scores.evaluate import BASELINE, OCEAN_KEYS, check_same
from sstcast.scores.joining import join_folds
from sstcast.scores.means import MeansOfDays
from sstcast.scores.scene import Scene
from sstcast.scores.score_files import ScoreFiles, recipe_of_scores
from sstcast.scores.significance import spacing
from sstcast.scores.summary import finish, metadata, summarise
from sstcast.scores.systems import ScoredSystem, baselines
from sstcast.scores.verify import verify
from sstcast.storage.artefacts import change_times, digest, fingerprint, locked, note_source
from sstcast.storage.yaml_files import validate
from sstcast.training.data_record import check_data

HISTORY = 42  # days of history for the baselines, unless a run gives another number
MIN_PAST_DAYS = 730  # days of observations needed before the first forecast, for climatology and baselines
READING = (
    2  # version of the rules by which days and cells of files are found; files are scored again if it changes
)
MOST_MISSING = 0.1  # largest share of missing cells in a forecast that is scored
# In degC. In 35 years of the Tasman Sea, the largest anomaly is 3.1 in the mean of a day and 7.4 in a cell.
FARTHEST_MEAN, FARTHEST_CELL = 6.0, 12.0
CELLS = ("lat", "lon")

Days = NDArray[np.datetime64]


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
            region is by default the run's, or all cells of the truth that the file covers. `data_of` describes
            how the data follow from `truth` and `against`.
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
    data = data_of(forecasts, truth, against, horizon)
    prepared = prepare(data)
    for run in against:
        if (run.config.data.source, run.config.data.box) == (data.source, data.box):
            check_data(run)
    recipe = recipe_of_scores() | {
        "sstcast": __version__,
        "file": fingerprint(path),
        "read_as": [variable, units],
        "reading": READING,
        "data": data.model_dump(mode="json"),
        "record": prepared.record().model_dump(),
        "against": {str(run.folder): run.digest for run in against},
        **({"remove_bias": True} if remove_bias else {}),
        **asked.recipe,
    }
    with locked(scored.folder):
        if (metrics := scored.known(recipe)) is not None and scored.are_of(path):
            return metrics, scored, False
        scored.folder.mkdir(exist_ok=True)
        content = digest(path)
        metrics = _score(forecasts, prepared, against, scored, recipe, asked)
        note_source(scored.metrics, times, content)
        return metrics, scored, True


def _score(
    forecasts: Forecasts,
    prepared: Prepared,
    against: Sequence[Run],
    scored: ScoreFiles,
    recipe: dict[str, Any],
    asked: Asked,
) -> dict[str, Any]:
    path, data, (cube, anomalies) = forecasts.path, prepared.data, prepared.open()
    if forecasts.regridded:  # now to the cells of the truth
        variable, units = recipe["read_as"]
        forecasts = read_forecasts(path, variable, units, regridder=Regridder.to(anomalies, data.box), means=True)
    sst, cell_note = on_cells(forecasts.sst, anomalies, data.box, path)
    first, last = np.array(data.splits.test, "datetime64[ns]")
    sst = sst.sel(lead=slice(data.horizon))
    init_times = _within(sst["init_time"].values, first, last, data.history, data.horizon)
    spread, spread_notes = _spread_on_cells(forecasts, anomalies, data.box)
    usable = sst if spread is None else sst.where(spread.notnull())
    dates, covered_cells, members = complete_forecasts(
        usable.sel(init_time=init_times), anomalies["ocean_mask"].load()
    )
    if not len(dates):
        raise SSTCastError(
            f"{path}: none of its {sst.sizes['init_time']} forecasts, {_span(sst['init_time'].values)}, can be "
            f"verified for {counted(data.horizon, 'day')} with {data.source}, {_span(np.array([first, last]))}; "
            "give another --truth or fewer --leads"
        )
    truth = Analysis.open(prepared).at(dates, covered_cells, sst["lead"].values, forecasts.mean_of)
    if asked.places is not None:
        asked.places.weights(cube["ocean_fraction"].load(), np.isfinite(truth.on_map(truth.area)))
    step = spacing(dates)
    leads = f"; leads {', '.join(map(str, truth.leads))}, without heatwaves and distributions"
    if truth.mean_of > 1:
        leads = f"; means of {truth.mean_of} days up to{leads[1:]}, which are of days"
        if asked.points is not None:
            asked = replace(asked, observations=None)
            leads += "; observations at points are not scored, because they are of days"
    notes = [
        forecasts.note,
        cell_note,
        *spread_notes,
        f"{len(dates)} of {sst.sizes['init_time']} forecasts, {counted(step, 'day')} apart, for "
        f"{counted(data.horizon, 'day')}, can be verified; all have {truth.ocean.sum()} of "
        f"{int(anomalies['ocean_mask'].sum())} ocean cells",
        f"the first valid day is {(dates[0] + truth.leads[0] * DAY).astype('M8[D]')}",
        f"climatology of {'..'.join(map(str, data.splits.base))}{'' if truth.daily else leads}",
    ]
    if len(sizes := dict(zip(*np.unique(members, return_counts=True), strict=True))) > 1:
        size_texts = [
            f"{counted(int(n), 'forecast')} with {counted(int(size), 'member')}" for size, n in sizes.items()
        ]
        notes.append(
            f"{', '.join(size_texts)}; each is scored with its own, so the CRPS depends on their number; the fair "
            "CRPS does not"
            f"{', and leaves out forecasts of one member, as all scores of ensembles do' if 1 in sizes else ''}"
        )
    if (asked.places is not None or asked.events) and not (truth.daily and spread is not None):
        reason = "they have no spread" if truth.daily else "not every day is forecast"
        notes.append(f"areas and warnings of heatwaves are not scored for them, because {reason}")
    for note in notes:
        LOG.info(f"{path}: {note}")
    references = baselines(SpreadCalibrator(prepared))
    of_file = FileForecasts(path, sst, truth.statistics, data, truth.mean_of)
    issued = ScoredSystem(of_file, members=sst.sizes["member"], as_issued=True)
    if forecasts.spread is not None and spread is None and issued.members == 1:
        issued = issued._replace(has_probabilities=False)
    if spread is not None and (reference_spread := references[DEFAULT_REFERENCE].spread) is not None:
        issued = issued._replace(spread=FileSpread(spread, reference_spread.correlation, path))
    names = {}
    for run in against:
        name = _name(run.folder, {MODEL, *references})
        of_run = Prepared.of(data.model_copy(update={"horizon": run.config.data.horizon}))
        references[name] = ScoredSystem(system_of(run, of_run), calibrated(run, of_run), len(run.members))
        names[str(run.folder)] = name
    if not truth.daily:
        issued = issued._replace(spread=None)
        references = {name: system._replace(spread=None) for name, system in references.items()}
    if truth.mean_of > 1:
        references = {
            name: scored._replace(system=MeansOfDays(scored.system, truth), as_issued=True)
            for name, scored in references.items()
        }
    systems = {MODEL: issued, **references}
    corrected = without_bias(systems, truth) if recipe.get("remove_bias") else {}
    systems |= corrected
    if corrected:
        notes.append(note_of(truth))
        LOG.info(f"{path}: {notes[-1]}")
    verified = verify(Scene(truth, systems, asked), path.name)
    compared = [name for name in (MODEL, f"{MODEL}{BIAS_REMOVED}") if name in systems]
    tables = finish(join_folds([verified]), compared, [name for name in systems if name != MODEL])
    system = {"model": "forecasts of a file", "members": sst.sizes["member"], "trained_on": None}
    described: dict[str, dict[str, Any]] = {MODEL: system} | dict.fromkeys(list(systems)[1:], BASELINE)
    heading = metadata(data, tables)
    for note in heading["notes"]:
        LOG.info(f"{path}: {note}")
    notes += heading["notes"]
    metrics = {
        "kind": "file",
        "file": str(path.absolute()),
        "source": str(cube.attrs["source"]),
        "data": recipe["record"],
        **heading,
        "test": [str(day) for day in (dates[[0, -1]] + [DAY, data.horizon * DAY]).astype("datetime64[D]")],
        "notes": notes,
        "references": names,
        "systems": described,
        **summarise(tables, DEFAULT_REFERENCE, described),
    }
    asked.describe(metrics)
    if corrected:
        metrics["bias_removed"] = {"nearby_days": NEARBY_DAYS, "years": years_of(truth)}
        of_model = metrics["ratios"]["mse"][f"{MODEL}{BIAS_REMOVED}"]
        notes.append(of_model[f"{DEFAULT_REFERENCE}{BIAS_REMOVED}"]["sentence"])
        LOG.info(f"{path}: {notes[-1]}")
    attributes = {"title": f"Scores of {path.name}", "comment": "; ".join(notes)}
    return scored.write(tables, metrics, recipe, data.protocol, **attributes)


def _spread_on_cells(
    forecasts: Forecasts, grid: xr.Dataset, region: Region
) -> tuple[xr.DataArray | None, list[str]]:
    """Return the spread of forecasts on the cells of `grid`, or None if there is none, and notes."""
    if forecasts.spread is None:
        return None, []
    try:
        spread, note = on_cells(
            forecasts.spread, grid, region, forecasts.path, "write it on the cells of its field"
        )
    except SSTCastError as error:
        return None, [
            f"distributions are not scored, nor heatwaves and thirds without members: the spread, {error}"
        ]
    return spread, [f"its spread: {note}"]


def _name(folder: Path, taken: Collection[str]) -> str:
    """Return the name of a run in tables: that of its folder, or its path if another row has that name."""
    taken = {*taken, *BASELINES, TRUTH, *REFERENCES, *TERCILE_REFERENCES}
    names = [name for name in (folder.name, str(folder)) if name not in taken and not name.endswith(BIAS_REMOVED)]
    return [*names, str(folder.resolve())][0]


def data_of(forecasts: Forecasts, truth: FieldSource, against: Sequence[Run], horizon: int) -> DataConfig:
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
        run_data = first_run.config.data
        if "source" in settings and truth.path.resolve() == run_data.path.resolve():
            del settings["source"]
        data = transferred_data(first_run, FieldSource(**settings)) if settings else run_data
    return data.model_copy(update={"horizon": horizon})


def _data_of_file(forecasts: Forecasts, truth: FieldSource, horizon: int) -> DataConfig:
    path, source = truth.path, source_of(truth.source)
    if not (source.needs_python or source.exists()):
        raise SSTCastError(f"--truth {truth.source}: no such file or folder")
    with open_sst(truth) as observed:
        days, dates = observed["time"].values, forecasts.sst["init_time"].values
    scored = _within(dates, days[0] + (MIN_PAST_DAYS + 1) * DAY, days[-1], HISTORY, horizon)
    if not len(scored):
        raise SSTCastError(
            f"{forecasts.path}: none of its {len(dates)} forecasts, {_span(dates)}, can be verified for {horizon} "
            f"days with {path}, which holds {_span(days)}: a forecast needs observations on all its days, and "
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
    box = Box.of({"lat": sst["lat"], "lon": around(sst["lon"].values)}) if region is None else parse_box(region)
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


def _within(dates: Days, first: np.datetime64, last: np.datetime64, history: int, horizon: int) -> Days:
    """Return the initial dates whose history and forecast days lie within `first..last`."""
    return dates[(dates - (history - 1) * DAY >= first) & (dates + horizon * DAY <= last)]


def _span(dates: Days) -> str:
    return f"{dates[0].astype('M8[D]')}..{dates[-1].astype('M8[D]')}"


class FileForecasts(ForecastSystem):
    """A forecasting system that looks up the forecasts in a file."""

    def __init__(
        self, path: Path, sst: xr.DataArray, statistics: xr.Dataset, data: DataConfig, mean_of: int = 1
    ) -> None:
        """Take `sst(member, init_time, lead, lat, lon)` in degC, and the truth's `climatology` and `scale`.

        Each value is the mean of `mean_of` days.
        """
        super().__init__(data.box, data.history, data.horizon)
        self.path, self.sst, self.statistics, self.mean_of = path, sst, statistics, mean_of

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Look up the forecasts from the days in `anomalies` (see `ForecastSystem.predict`).

        Raises SSTCastError if a value is too far from the climatology of its place and day.
        """
        dates = anomalies["time"].values[self.history - 1 :: every]
        sst = self.sst.sel(init_time=dates).load()
        valid = sst["init_time"] + sst["lead"] * DAY
        climatology, scale = (
            mean_of_days(partial(on_days, self.statistics[name]), valid, self.mean_of)
            for name in ("climatology", "scale")
        )
        departure = (sst - climatology).transpose("member", *FIELD)
        _check(departure, self.path)
        return (departure / scale).transpose("member", *FIELD).astype(np.float32).assign_coords(valid_time=valid)


def _check(departure: xr.DataArray, path: Path) -> None:
    """Raise SSTCastError if departures from the climatology `(member, init_time, lead, lat, lon)` are implausible.

    Each may be at most `FARTHEST_CELL` degC. Their mean magnitude over the n cells of a day may be at most
    `FARTHEST_MEAN * (1 + 1 / sqrt(n))` degC.
    """
    magnitude = abs(departure)
    mean, cells = magnitude.mean(CELLS), magnitude.notnull().sum(CELLS).clip(min=1)
    implausible = (magnitude > FARTHEST_CELL).any(CELLS) | (mean > FARTHEST_MEAN * (1 + 1 / np.sqrt(cells)))
    if not implausible.any():
        return
    position = tuple(np.argwhere(implausible.values)[0])
    row, column = np.unravel_index(np.nanargmax(magnitude.values[position]), magnitude.shape[-2:])
    cell = departure[position][row, column]
    member = f", member {position[0]}" if departure.sizes["member"] > 1 else ""
    raise SSTCastError(
        f"{path}: the forecast of {cell['init_time'].values.astype('M8[D]')}, lead {int(cell['lead'])}{member}, "
        f"differs from the climatology by {float(cell):+.1f} degC at lat {float(cell['lat']):g}, lon "
        f"{float(cell['lon']):g}, and by {float(mean[position]):.1f} degC on average; correct the file, or check "
        "--units and --variable"
    )


@dataclass(frozen=True)
class FileSpread(Spread):
    """The standard deviations in the file `path`, `values(init_time, lead, lat, lon)` in degC.

    A file does not hold the `correlation` of errors between leads, so a baseline's is used.
    """

    path: Path

    def spread(self, valid_time: xr.DataArray) -> xr.DataArray:
        """Return the spread of the forecasts. Raises SSTCastError if a value is not positive, or infinite."""
        values = self.values.sel(init_time=valid_time["init_time"], lead=valid_time["lead"]).load()
        if ((values <= 0) | np.isinf(values)).any():
            raise SSTCastError(f"{self.path}: a spread is infinite or not positive; leave it out, or {REMEDY}")
        return values.transpose(*FIELD)


def complete_forecasts(sst: xr.DataArray, ocean: xr.DataArray) -> tuple[Days, xr.DataArray, NDArray[np.integer]]:
    """Return the dates of complete forecasts, the `ocean` cells `(lat, lon)` that all cover, and members by date.

    A date may lack members, whose values are then missing at all leads and cells. A forecast is complete if its
    members lack at most a tenth of the ocean cells that any forecast covers.
    """
    valid = sst.notnull() & ocean
    present = valid.any(("lead", *CELLS))
    masks = xr.Dataset({"coverage": (valid.all("lead") | ~present).all("member"), "present": present}).compute()
    present = masks["present"]
    coverage = masks["coverage"] & ocean & present.any("member")
    share = coverage.sum(CELLS) / max(1, int(coverage.any("init_time").sum()))
    complete = np.flatnonzero(share.values >= 1 - MOST_MISSING)
    cells, members = coverage.isel(init_time=complete), present.isel(init_time=complete).sum("member").values
    return cells["init_time"].values, cells.all("init_time") if cells.size else ~ocean & ocean, members
