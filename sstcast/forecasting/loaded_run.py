"""A run in memory, which forecasts from any days with the climatology and the fit of the last of them."""

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig, FieldSource
from sstcast.errors import SSTCastError
from sstcast.extremes.above import Temperatures, temperatures
from sstcast.extremes.heat_stress import MMM, MonthlyYears
from sstcast.extremes.heatwave_record import series_of_places
from sstcast.extremes.heatwaves import FREEZING, LAYOUT, MARGIN_DAYS, limits_of, short_base_period
from sstcast.extremes.terciles import LAYOUT as TERCILES_LAYOUT
from sstcast.extremes.terciles import terciles_of
from sstcast.forecasting.above import with_temperatures
from sstcast.forecasting.areas import with_interval_of_area
from sstcast.forecasting.fields import FILLED, described, in_degrees, not_below_freezing
from sstcast.forecasting.heatwaves import Trajectories, with_heatwaves, without_events
from sstcast.forecasting.history import (
    RegionStatistics,
    describe_history,
    filled_days,
    last_consecutive,
    most_days_read,
    recognised,
)
from sstcast.forecasting.places import with_place_events, with_places
from sstcast.forecasting.plausible import check_forecast
from sstcast.forecasting.run_places import AskedPlaces
from sstcast.forecasting.samples import MOST_SAMPLES, SAMPLES, ErrorPaths, ErrorsOfCells, with_samples
from sstcast.forecasting.spread import Spread, calibrated, spread_file, with_distribution
from sstcast.forecasting.stores import stores_for
from sstcast.forecasting.terciles import with_terciles
from sstcast.forecasting.transfer import OWN, continued, data_of
from sstcast.forecasting.why import CONTRIBUTION, check_explained, contributions, with_contributions_of_places
from sstcast.log import LOG, warn_once
from sstcast.models import LINEAR
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.splits import last_test
from sstcast.places.places import OUTLINES, Places
from sstcast.predictors.predictors import (
    check_known,
    describe_predictors,
    predictors_in,
    with_predictors,
)
from sstcast.progress import waiting
from sstcast.reading.daily_field import identified
from sstcast.reading.days_of_year import on_days
from sstcast.reading.fields import options_for_keys
from sstcast.reading.xarray_objects import check_by_name, held
from sstcast.runs import Run
from sstcast.storage.artefacts import as_text, digest
from sstcast.storage.cf import CONVENTIONS
from sstcast.storage.yaml_files import suggest
from sstcast.training.data_record import check_data, is_own, is_own_ocean, ocean_of
from sstcast.types import Array

if TYPE_CHECKING:
    from sstcast.forecasting.system import Combination, Models

FILE_LAYOUT = 1  # version of the layout of a forecast's file
PAST = 84  # days of `sst_past`, if the source has them; degree heating weeks need as many


class Extras(NamedTuple):
    """What a forecast holds besides the fields that all have (see `LoadedRun.forecast`)."""

    members: bool = False
    samples: int | None = None
    asked: AskedPlaces | None = None
    above: tuple[float, ...] = ()
    below: tuple[float, ...] = ()
    why: bool = False


def is_of_own_ocean(forecast: xr.Dataset, run: Run) -> bool:
    """Return whether a file holds a forecast of a run's own ocean, perhaps with the splits of its date.

    If it does not say so, its source must be the run's, at the same place.
    """
    if "own_ocean" in forecast.attrs:
        return bool(forecast.attrs["own_ocean"] == ocean_of(run))
    return bool(json.loads(forecast.attrs.get("made_from", "{}")) == made_from(run.config.data))


def made_from(data: DataConfig) -> dict[str, Any]:
    """Return what a forecast is of: the source, how it is read, and the region."""
    return identified(data) | {"region": str(data.box.bounds)}


def error_keys(where: FieldSource) -> AbstractContextManager[None]:
    """Let errors name the options of a source that was given, instead of keys of a configuration."""
    return options_for_keys() if "source" in where.given else nullcontext()


class LoadedRun:
    """The models of a run's members, and the climatology and scale of a place, loaded in memory.

    The place is the run's ocean, or the region or source that `where` gives. Climatology, scale and linear fits
    belong to an initial date (see `stores.stores_for`). Those of the last one stay in memory.

    Raises SSTCastError if the run has no checkpoint, or its model is restricted to one shape of tile and the
    region has another.
    """

    prepared: Prepared  # from the first initial date on

    def __init__(self, folder: Path, where: FieldSource = OWN) -> None:
        self.run = Run.open(folder)
        self.config = self.run.config
        self.where = continued(self.run, where)
        self.data = data_of(self.run, self.where)
        self.most_days = max(most_days_read(self.run), PAST)  # of a history, on which a recipe depends
        self._object = held(self.data.source)  # so that it is held as long as the run
        self._test_start: dt.date | None = None
        self._checkpoints = [digest(member.best) for member in self.run.members]

    def __fspath__(self) -> str:
        """Return the folder of the run, so that a loaded run may be given in place of it.

        Raises SSTCastError if it was loaded for another ocean, of which the folder does not tell.
        """
        if self.where.given:
            ocean = ", ".join(f"{key} {value}" for key, value in self.where.given.items())
            raise SSTCastError(
                f"{self.run.folder}: was loaded with {ocean}, which only `forecast` takes; give the folder instead"
            )
        return str(self.run.folder)

    def turn_to(self, date: dt.date) -> Prepared:
        """Return the stores for an initial date, and forecast from them until another date needs others.

        Raises SSTCastError like `stores.stores_for`.
        """
        if (start := last_test(self.data, date)) != self._test_start:  # on which alone the splits depend
            with error_keys(self.where):
                prepared = stores_for(self.run, self.where, date)
            if self._test_start is None or prepared != self.prepared:
                for loaded in ("normals", "system", "spread"):
                    vars(self).pop(loaded, None)
                self.prepared, self.data = prepared, prepared.data
            self._test_start = start
        return self.prepared

    @cached_property
    def normals(self) -> RegionStatistics:
        """The region's grid, climatology and scale from the prepared stores."""
        return RegionStatistics(self.prepared)

    @cached_property
    def system(self) -> "Models | Combination":
        """The forecasting system of the run for the region."""
        from sstcast.forecasting.system import system_of  # imported late: PyTorch takes a second

        with waiting(f"{self.run.folder}: fitting its linear parts"):
            return system_of(self.run, self.prepared)

    @property
    def days_read(self) -> int:
        """The number of days up to the initial date that a forecast reads."""
        return self.data.history + self.system.before

    @cached_property
    def spread(self) -> Spread:
        """The spread model of the run's forecasts."""
        with waiting(f"{self.run.folder}: estimating its spread"):
            return calibrated(self.run, self.prepared)

    def _learnt_later(self, day: dt.date) -> str:
        """Return, as a sentence, up to which day the forecasts from a `day` learnt, or "" if that is no later one.

        Weights are those of the training, but for linear systems, which are fitted to the days of the stores.
        """
        of_stores = self.prepared.data.splits
        last = max(of_stores.validation[1], of_stores.base[1])
        for config in (system.config for system in self.run.systems if system.config.model.name not in LINEAR):
            splits = config.data.splits
            begun = config.training.weights is not None  # from weights that may know all days before the test
            last = max(last, splits.test[0] - dt.timedelta(1) if begun else splits.validation[1])
        if day >= last:
            return ""
        return (
            f"learnt from days up to {last}, which include later ones; its errors will be smaller than a "
            "forecast's; `hindcast` forecasts the past"
        )

    def _given(self, predictors: Mapping[str, Any]) -> dict[str, xr.DataArray]:
        """Return the values that a caller gives. Raises SSTCastError if the run does not read one of them."""
        check_by_name(predictors)
        of_run = self.data.predictors
        if extra := [name for name in predictors if name not in of_run]:
            raise SSTCastError(
                f"predictors: {self.run.folder} does not read {extra[0]}{suggest(extra[0], of_run)}; leave it out"
            )
        stored = self.prepared.predictors
        return {name: stored[name].given(values) for name, values in predictors.items()}

    def _check_predictors(self, days: NDArray[np.datetime64], given: Mapping[str, xr.DataArray]) -> dict[str, str]:
        """Describe the predictors, and what is known of them on the last of the `days` read, as attributes.

        Raises SSTCastError if one may not be missing.
        """
        absent, known = check_known(days[-1], len(days), self.prepared.predictors, given)
        missing = [f"{name} {reason}, its climatology is read" for name, reason in absent.items()]
        told = "; ".join(filter(None, [describe_predictors(self.data), *missing]))
        return {name: text for name, text in (("predictors", told), ("predictors_known", known)) if text}

    def recipe(
        self,
        history: xr.DataArray,
        extras: Extras,
        given: Mapping[str, xr.DataArray] | None = None,
    ) -> dict[str, Any]:
        """Return the recipe of the forecast from `history`. Equal recipes give equal forecasts."""
        self.turn_to(history.indexes["time"][-1].date())
        state = hashlib.sha256(history["time"].values.tobytes() + history.values.tobytes())
        if "preliminary" in history.coords:
            state.update(history["preliminary"].values.tobytes())
        state.update(filled_days(history).encode())
        return {
            "layout": FILE_LAYOUT,
            "sstcast": __version__,
            "conventions": CONVENTIONS,
            "checkpoints": self._checkpoints,
            "spread": spread_file(self.run, self.prepared)[1],  # which tells the statistics
            "limits": LAYOUT,
            "terciles": TERCILES_LAYOUT,
            "history": state.hexdigest(),
            "members": extras.members,
            "samples": extras.samples,
            "asked": None if extras.asked is None else extras.asked.recipe,
            "predictors": self._known_of(history, given) if self.data.predictors else None,
            "above": list(extras.above),
            **({"below": list(extras.below)} if extras.below else {}),
            **({"why": True} if extras.why else {}),
        }

    def _known_of(self, history: xr.DataArray, given: Mapping[str, xr.DataArray] | None) -> str:
        """Hash what the days of a history know of the predictors."""
        days = xr.Dataset(coords={"time": history["time"]})
        predictors = predictors_in(with_predictors(days, self.prepared.predictors, given))
        return hashlib.sha256(b"".join(field.values.tobytes() for field in predictors.values())).hexdigest()

    def forecast(
        self,
        history: xr.DataArray,
        members: bool = False,
        samples: int | None = None,
        asked: AskedPlaces | None = None,
        predictors: Mapping[str, Any] | None = None,
        above: str | float | Sequence[float] | None = None,
        below: str | float | Sequence[float] | None = None,
        why: bool = False,
    ) -> xr.Dataset:
        """Forecast from the last days of `history`.

        Args:
            history: `sst(time, lat, lon)` in degC, NaN on land, with at least the run's `data.history` days, or
                365 for a system with a memory. It may cover more than the region, be backed by dask, and have the
                run's grid or the finer cells that are averaged to it. The coordinates `preliminary(time)` and
                `filled_share(time)`, the share of the sea that was filled, are described in the attributes of the
                forecast.
            members: whether to add the forecast of each ensemble member as `sst_member`.
            samples: number of joint samples to add as `sst_sample(init_time, sample, lead, lat, lon)` (see
                `forecasting.samples`). They also give the share of the sea in a heatwave its interval. By default,
                100 samples give the interval and are not added. With 0, there is no interval.
            asked: the places to forecast.
            predictors: values of the run's predictors by name: of an index a pandas Series or an xarray DataArray
                by date, of a grid an xarray object with time, latitude and longitude, or the path of a file. By
                default, those of the prepared stores.
            above: temperatures in degC, numbers or a text such as `28,29.5`, whose probability of a day above each
                is added as `above_probability(init_time, above, lead, lat, lon)`, and for places.
            below: the same of days below.
            why: whether to add what each part of what is read contributes to the anomaly, as
                `sst_contribution(init_time, part, lead, lat, lon)` (see `forecasting.why`), and for places.

        Returns:
            Fields `(init_time, lead, lat, lon)` in degC with one `init_time`, NaN on land and outside the tiles.
            `sst` and `sst_anomaly` (from the climatology of the base period) are the ensemble mean. `sst_spread`
            and `sst_quantile` describe the predictive distribution. Neither `sst` nor a quantile is below the
            `freezing_point`, NaN where the sea does not freeze. `sst_past` and `climatology_past` cover the last
            84 days that `history` has, and `past` is 0 on the last. `with_heatwaves` lists those of
            heatwaves.

        Raises:
            SSTCastError: days, values or a predictor are missing, the grid is another, `members` is set for a run
                with one member, the training days are too few for the samples, an area is not in the region, or
                `why` is set for a network without a linear base.
        """
        if members and len(self.run.members) == 1:
            raise SSTCastError(f"{self.run.folder}: is not an ensemble; leave out the members")
        sides = temperatures(above), temperatures(below, "--below")
        extras = Extras(members, samples, asked, *sides, why)
        if why:
            check_explained(self.run)
        if samples is not None and not 0 <= samples <= MOST_SAMPLES:
            raise SSTCastError(f"--samples {samples}: give a number from 0 to {MOST_SAMPLES}")
        history = recognised(history)
        prepared = self.turn_to(history.indexes["time"][-1].date())
        count = self.days_read
        history = last_consecutive(history, count, self.most_days)

        def of_one_state() -> xr.Dataset:
            return self._forecast(history, count, extras, self._given(predictors or {}))

        return prepared.unchanged(of_one_state, prepared.data.splits.before_test[1])

    def _forecast(
        self, history: xr.DataArray, count: int, extras: Extras, given: Mapping[str, xr.DataArray]
    ) -> xr.Dataset:
        """Forecast from a checked history, of which the models read the last `count` days (see `forecast`)."""
        from sstcast.ocean.windows import with_earlier  # imported late, as it imports PyTorch

        days = self.normals.anomalies_of(history).compute()
        days = with_predictors(days, self.prepared.predictors, given)
        days_read, standard = (days.isel(time=slice(-length, None)) for length in (count, self.data.history))
        of_predictors = self._check_predictors(days_read["time"].values, given)
        limits = limits_of(self.prepared)
        anomalies = self.system.predict(with_earlier(standard, days))
        record, where = self.prepared.open_anomalies(), str(self.run.folder)
        check_forecast(in_degrees(anomalies, standard), days_read, record, where, self.config.model.name)
        unclipped, anomalies = anomalies, not_below_freezing(anomalies, standard, limits[FREEZING])
        fields = with_distribution(in_degrees(anomalies, standard), self.spread, limits[FREEZING])
        self.prepared.shared.clear()  # windows and sums of the fits, which are as large as the record
        fields = fields.merge(_past(days.isel(time=slice(-PAST, None))), compat="no_conflicts")
        fields = with_heatwaves(fields, self.spread, limits)
        fields = with_terciles(fields, self.spread, terciles_of(self.prepared))
        fields = with_temperatures(fields, Temperatures(extras.above, extras.below), limits[FREEZING])
        ocean = fields["sst"].notnull().isel(init_time=0, lead=0, drop=True)
        for name in (FREEZING, MMM):  # of the statistics for this date
            fields[name] = limits[name].where(ocean).expand_dims(init_time=fields["init_time"])
        if extras.why:
            fields[CONTRIBUTION] = contributions(self.system, days_read, unclipped, anomalies)
        paths, lowest = ErrorPaths.of(self.prepared, ocean.values), limits[FREEZING].values[ocean.values]
        errors = paths.errors_of_all(fields["init_time"].values[0], extras.samples)
        if errors is not None:
            fields = with_interval_of_area(fields, errors)
        if extras.asked is not None:
            fields = self._with_places(fields, extras.asked, paths, errors, lowest)
        if errors is not None and extras.samples:
            fields = with_samples(fields, errors, lowest)
        if (known := fields.sizes["past"]) <= MARGIN_DAYS:
            needed = f"events need {MARGIN_DAYS + 1} observed days, but the history has {known}: none is forecast"
            warn_once(f"{self.run.folder}: {needed}")
            fields = without_events(fields)
        if extras.members:
            member_sst = [
                in_degrees(anomalies.isel(member=[n]), standard)["sst"] for n in range(len(self.run.members))
            ]
            fields["sst_member"] = xr.concat(member_sst, "member").assign_coords(member=np.arange(len(member_sst)))
        recipe = as_text(self.recipe(history, extras, given))
        outlines = {} if extras.asked is None else {OUTLINES: extras.asked.places.geojson}
        return self._described(fields, history[-count:], recipe, outlines | of_predictors)

    def _described(
        self, fields: xr.Dataset, history: xr.DataArray, recipe: str, attributes: dict[str, str]
    ) -> xr.Dataset:
        """Add the attributes of a forecast from the days of a history, and some more."""
        name, data = self.run.folder.resolve().name, describe_history(history)
        day = history.indexes["time"][-1]
        if later := self._learnt_later(day.date()):
            warn_once(f"{self.run.folder}: {later}")
        comment = "; ".join(filter(None, (self.prepared.note, later)))
        filled = filled_days(history[-self.data.history :])
        timestamp = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        short_period = short_base_period(*self.data.splits.base)
        return described(
            fields,
            self.run,
            self.normals.source,
            None if is_own(self.run, self.prepared) else self.data,
            title=f"SST forecast by run {name} from {data.partition(';')[0]}",
            history=f"{timestamp} sstcast {__version__} forecast of run {name} from {day:%Y-%m-%d}",
            date_created=timestamp,
            data=data,
            region=self.data.place,
            recipe=recipe,
            **attributes,
            **({FILLED: filled} if filled else {}),
            **({"comment": comment} if comment else {}),
            made_from=as_text(made_from(self.data)),
            own_ocean=ocean_of(self.run) if is_own_ocean(self.run, self.prepared) else "no",
            maximum_monthly_mean_years=str(MonthlyYears.of(*self.data.splits.base) or "none is complete"),
            heatwave_years="..".join(str(day)[:4] for day in self.data.splits.base),
            **({"heatwave_base_period": f"only {short_period}"} if short_period else {}),
        )

    def _with_places(
        self, fields: xr.Dataset, asked: AskedPlaces, paths: ErrorPaths, errors: Array | None, lowest: Array
    ) -> xr.Dataset:
        """Add the forecast of places, and what their events are detected from.

        Without the `errors` of all cells, those of the cells of the places are drawn from the `paths`.
        """
        places, weights = asked.places, asked.places.weights(self.normals.fraction, paths.cells)
        drawn: Array | ErrorsOfCells | None = errors
        if errors is None:
            drawn = self._errors_of_places(places, weights, paths, fields["init_time"].values[0])
        trajectories = Trajectories(self.spread.correlation)
        fields = with_places(fields, places, weights, asked.shares, drawn, lowest, trajectories)
        if CONTRIBUTION in fields:
            fields = with_contributions_of_places(fields, places, weights)
        if not weights.nnz:
            return fields
        base, areas = None, np.flatnonzero(~places.are_points & (np.diff(weights.indptr) > 0))
        if areas.size:
            days = self.prepared.open_cube()["sst"].sel(time=slice(*map(str, self.data.splits.base)))
            of_areas_only = replace(places, places=tuple(places.places[n] for n in areas))
            base = series_of_places(days, of_areas_only, weights[areas])
        return with_place_events(fields, base, places, weights, drawn, lowest)

    def _errors_of_places(
        self, places: Places, weights: Any, paths: ErrorPaths, day: np.datetime64
    ) -> ErrorsOfCells | None:
        """Draw the errors of the cells of places, None if no place needs them.

        If there are too few training days, points do without. So do areas that the run kept: they lose their
        `weights`, and so have no forecast. Raises SSTCastError for others (see `ErrorPaths.starts`).
        """
        need = np.ones(len(places), bool)
        if not paths.enough(day, SAMPLES):
            lacks = "points have no means of weeks" + ", and areas no forecast" * places.kept
            LOG.info(f"{self.run.folder}: too few training days for joint samples: {lacks}")
            need = ~places.are_points
            if places.kept:
                weights.data[np.repeat(need, np.diff(weights.indptr))] = 0
                weights.eliminate_zeros()
        used = np.asarray(weights[need].sum(0)).ravel()[paths.cells.ravel()] > 0
        return ErrorsOfCells(paths.standard_errors(day, SAMPLES, used), used) if used.any() else None


def load_run(folder: Path, where: FieldSource = OWN) -> LoadedRun:
    """Load a run for its own ocean or, if `where` gives another region or source, for that.

    Raises SSTCastError also if the stores of the run's own data hold other days than it was trained on.
    """
    with error_keys(where):
        loaded = LoadedRun(folder, where)
    if not loaded.where.given and (own := Prepared.of(loaded.config.data)).is_current:
        check_data(loaded.run, own)
    return loaded


def _past(standard: xr.Dataset) -> xr.Dataset:
    """Compute `sst_past` and `climatology_past(init_time, past, lat, lon)` in degC from a standardised history."""
    climatology, scale = (on_days(standard[name], standard["time"]) for name in ("climatology", "scale"))
    past = xr.Dataset({"sst_past": climatology + scale * standard["anomaly"], "climatology_past": climatology})
    last, days = standard["time"].values[-1:], standard.sizes["time"]
    past = past.where(standard["ocean_mask"]).drop_vars("time").rename(time="past").astype("float32")
    return past.assign_coords(past=np.arange(1 - days, 1, dtype=np.int32)).expand_dims(init_time=last)
