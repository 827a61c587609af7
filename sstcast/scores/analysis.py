"""The verifying observations, on tiles and on the map: what forecasts are compared with."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import dask.array as da
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import BY_CELL, FREEZING, limits_of
from sstcast.extremes.terciles import whole_weeks
from sstcast.forecasting.fields import FIELD
from sstcast.geo import area_weights, spans_globe
from sstcast.names import DEGREES, STANDARDISED
from sstcast.ocean.filled_days import check_test_dates, is_known
from sstcast.ocean.lead_weeks import WEEK
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.tiles import from_tiles, tile_index, to_tiles
from sstcast.predictors.predictors import predictors_in
from sstcast.progress import tracked
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.scores.metrics import small_scales
from sstcast.scores.significance import DATES_AT_ONCE
from sstcast.storage.scratch import in_scratch, parts, release, scratch_array
from sstcast.training.data_record import check_data
from sstcast.types import Array, Mask

if TYPE_CHECKING:
    from sstcast.ocean.windows import Windows

BLOCK_ELEMENTS = 2**21  # elements of one field in memory: 8 MiB
MOST_FORECASTS = 1.5  # largest number of forecasts made for each that is scored, where dates are left out
ALL = slice(None)


class Observed(NamedTuple):
    """Observations on the days forecast from a block of initial dates, in arrays `[starts, lead, tile, N]`."""

    dates: slice  # the positions of the initial dates
    anomaly: dict[str, Array]  # observed anomalies, by units
    small: Array  # small scales of the observed anomalies, in degC
    scale: Array  # degC per standardised unit
    limit: Array  # heatwave threshold minus climatology, in degC, NaN where no event is defined
    lowest: Array | None  # freezing point minus climatology, in degC, -inf where none is known; None if nowhere

    @property
    def defined(self) -> Mask:
        """Whether an event is defined, also on land, where nothing is scored."""
        return np.isfinite(self.limit)

    def at(self, starts: slice) -> "Observed":
        """Return the observations on the days forecast from some of the dates."""
        dates = slice(self.dates.start + starts.start, self.dates.start + starts.stop)
        anomaly = {units: values[starts] for units, values in self.anomaly.items()}
        arrays = {
            name: values[starts] for name, values in self._asdict().items() if isinstance(values, np.ndarray)
        }
        return self._replace(dates=dates, anomaly=anomaly, **arrays)


@dataclass(frozen=True)
class Analysis:
    """Observations, ocean mask, climatology and scale of the days on which forecasts are verified.

    Not all days may fit in memory, so the methods take a slice of the positions of initial dates.

    Attributes:
        prepared: the stores that hold the truth.
        windows: the initial dates, and the standardised anomalies around them.
        ocean: mask of the scored cells, `[tile, N]`.
        anomalies: the prepared anomalies, climatology and scale.
        cube: the prepared temperatures.
        index: the position on the map of each node, `[tile, N]`.
        leads: the leads in days that are verified.
        base: the stores of the data whose base period defines the heatwave thresholds.
        mean_of: the number of days in each mean that is verified, of which the lead is the last.
        left_out: the number of initial dates that are not scored, because gaps were filled on them.
    """

    prepared: Prepared
    windows: "Windows"
    ocean: NDArray[np.bool_]
    anomalies: xr.Dataset
    cube: xr.Dataset
    index: NDArray[np.int64]
    leads: NDArray[np.integer]
    base: Prepared
    mean_of: int = 1
    left_out: int = 0

    @classmethod
    def of(cls, run: Run, split: str = "test") -> "Analysis":
        """Open the prepared stores of a run.

        Raises SSTCastError if they differ from the data the run was trained on.
        """
        prepared = Prepared.of(run.config.data)
        check_data(run, prepared)
        return cls.open(prepared, split)

    @classmethod
    def open(
        cls, prepared: Prepared, split: str = "test", every: int = 1, base: Prepared | None = None
    ) -> "Analysis":
        """Open `prepared` stores, for initial dates `every` days apart.

        Dates of the test days on which gaps were filled are left out (see `filled_days`). The base period of
        `base`, by default the same, defines the heatwave thresholds. Raises SSTCastError if the stores do not
        exist, or no date is left.
        """
        from sstcast.ocean.windows import cut_windows  # imported late, as it imports PyTorch

        data, (cube, anomalies) = prepared.data, prepared.open()
        windows, left_out = cut_windows(anomalies, data, split).thinned(every), 0
        if split == "test":
            check_test_dates(prepared, every)
            known = is_known(prepared, windows.init_times)
            windows, left_out = replace(windows, at=windows.at[known]), int((~known).sum())
        shape = (anomalies.sizes["lat"], anomalies.sizes["lon"])
        index, leads = tile_index(data.box, shape), np.arange(1, windows.horizon + 1)
        ocean = windows.ocean.cpu().numpy()
        return cls(prepared, windows, ocean, anomalies, cube, index, leads, base or prepared, left_out=left_out)

    def at(
        self, dates: NDArray[np.datetime64], cells: xr.DataArray, leads: NDArray[np.integer], mean_of: int = 1
    ) -> "Analysis":
        """Restrict the verification to some initial dates of the split, leads, and the `cells(lat, lon)`.

        Means of `mean_of` days are verified.

        Raises SSTCastError if none of these cells is ocean.
        """
        ocean = to_tiles(cells.values, self.index) & self.ocean
        if not ocean.any():
            raise SSTCastError(
                "--region: the forecasts have no values where the truth has ocean; give another --region "
                "or --truth"
            )
        first = np.searchsorted(self.windows.days, dates) - self.windows.history + 1
        windows = replace(self.windows, at=first)
        return replace(self, windows=windows, ocean=ocean, leads=leads, mean_of=mean_of, left_out=0)

    @property
    def data(self) -> DataConfig:
        """The data configuration."""
        return self.prepared.data

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of the map."""
        return self.anomalies.sizes["lat"], self.anomalies.sizes["lon"]

    @property
    def daily(self) -> bool:
        """Whether every day up to the horizon is verified, which scores of heatwaves need."""
        return len(self.leads) == self.windows.horizon

    @property
    def weekly(self) -> bool:
        """Whether the means that are verified are those of all whole weeks: days 1-7, 8-14 and so on."""
        weeks = 1 + np.arange(whole_weeks(self.windows.horizon))
        return self.mean_of == WEEK and np.array_equal(self.leads, WEEK * weeks)

    @cached_property
    def area(self) -> Array:
        """The area of each node as a share of the area of all scored cells, `[tile, N]`."""
        cells = area_weights(self.anomalies["lat"]) * xr.ones_like(self.anomalies["lon"])
        return sum_to_one(self.on_tiles(cells))

    @property
    def anomaly(self) -> Array:
        """Standardised anomalies on each day of the split, `[T, tile, N]`, 0 on land."""
        return self.windows.values.cpu().numpy()

    @cached_property
    def sst(self) -> Array:
        """Temperature in degC on each day of the split, `[T, tile, N]`, 0 on land."""
        sst = self.cube["sst"].sel(time=slice(*self.windows.days[[0, -1]]))
        values = scratch_array((len(sst), *self.index.shape))
        for days in parts(sst):
            values[days] = self.on_tiles(sst[days])
        return values

    def ahead(self, daily: NDArray[Any] | xr.DataArray, dates: slice = ALL) -> NDArray[Any]:
        """Select the values on the days forecast, `[starts, lead, ...]`.

        `daily` is an array `[T, ...]` over the days of the split, or a statistic `(dayofyear, lat, lon)`, which is
        cut into tiles. Of several days, it is their mean.
        """
        last = self.windows.at[dates, None] + self.windows.history + self.leads - 1
        first, *others = (self._on(daily, last - day) for day in range(self.mean_of))
        return sum(others, start=first) / np.float32(self.mean_of) if others else first

    def _on(self, daily: NDArray[Any] | xr.DataArray, days: NDArray[np.integer]) -> NDArray[Any]:
        if isinstance(daily, xr.DataArray):
            return self.on_tiles(on_days(daily, xr.DataArray(self.windows.days[days], dims=FIELD[:2])))
        return daily[days]

    def histories(self, dates: slice = ALL) -> tuple[xr.Dataset, int]:
        """Return the arguments of `ForecastSystem.predict` for the initial dates `dates`.

        Where dates between them are left out, they are for these, too (see `of_dates`).
        """
        from sstcast.ocean.windows import with_earlier

        windows = replace(self.windows, at=self.windows.at[dates])
        days = slice(windows.at[0], windows.at[-1] + windows.history)
        field = ("time", "lat", "lon")
        values = self.on_map(windows.values[days].numpy(), windows.ocean.numpy())
        past = xr.Dataset(
            {"anomaly": (field, values), "ocean_mask": self.anomalies["ocean_mask"].load()},
            {"time": windows.days[days], "lat": self.anomalies["lat"], "lon": self.anomalies["lon"]},
        )
        known = predictors_in(self.anomalies)
        past = past.assign({name: field.sel(time=past["time"]) for name, field in known.items()})
        return with_earlier(past, self.anomalies), _spacing(windows.at)

    def of_dates(self, forecast: xr.DataArray, dates: slice = ALL) -> xr.DataArray:
        """Return what `ForecastSystem.predict` made of `histories(dates)`, without dates that are left out."""
        init_times = self.windows.init_times[dates]
        is_whole = forecast.sizes["init_time"] == len(init_times)
        return forecast if is_whole else forecast.sel(init_time=init_times)

    def blocks(self, members: int = 1) -> list[slice]:
        """Divide the initial dates into blocks whose forecasts fit in memory.

        They are evenly spaced in a block, except that a few may be left out.
        """
        at, most = self.windows.at, MOST_FORECASTS if self.left_out else 1
        step = max(1, BLOCK_ELEMENTS // (members * self.windows.horizon * self.ocean.size))
        blocks, first = [], 0
        for stop in range(1, len(at) + 1):
            if (
                stop == len(at)
                or stop - first == step
                or _forecasts(at[first : stop + 1]) > most * (stop + 1 - first)
            ):
                blocks.append(slice(first, stop))
                first = stop
        return blocks

    @cached_property
    def statistics(self) -> xr.Dataset:
        """Climatology and scale `(dayofyear, lat, lon)` in degC."""
        return xr.Dataset({name: in_scratch(self.anomalies[name]) for name in ("climatology", "scale")})

    @cached_property
    def limits(self) -> xr.Dataset:
        """Heatwave thresholds and climatology, frequencies of heatwaves, and freezing points (see `limits_of`)."""
        return limits_of(self.base, "heatwave_threshold", "climatology", *BY_CELL)

    def observe(self, members: int = 1, label: str = "") -> Iterator[Observed]:
        """Yield the observations on the days forecast, with one block of initial dates in memory at a time.

        Shows progress beside `label`. The size of a block depends on the number of `members` of the forecasts.
        """
        freezing = self.on_tiles(self.limits[FREEZING])
        freezing = np.where(np.isnan(freezing), np.float32(-np.inf), freezing)
        freezes = bool((np.isfinite(freezing) & self.ocean).any())
        for dates in tracked(self.blocks(members), label):
            climatology, scale = (self.ahead(self.statistics[name], dates) for name in ("climatology", "scale"))
            limit, degrees = (
                self.ahead(daily, dates) - climatology for daily in (self.limits["heatwave_threshold"], self.sst)
            )
            # The mean of standardised anomalies does not follow from that of temperatures, which files hold.
            if self.mean_of == 1:
                standardised = self.ahead(self.anomaly, dates)
            else:
                standardised = np.divide(degrees, scale, out=np.zeros_like(degrees), where=self.ocean)
            yield Observed(
                dates,
                {STANDARDISED: standardised, DEGREES: degrees},
                self.small_scales(degrees),
                scale,
                limit,
                freezing - climatology if freezes else None,
            )
            release()

    def on_map(self, tiles: Array, cells: NDArray[np.bool_] | None = None) -> Array:
        """Put `[..., tile, N]` on the map `[..., lat, lon]`, NaN outside `cells`, by default the scored cells."""
        mask = self.ocean if cells is None else cells
        return from_tiles(np.where(mask, tiles, np.float32(np.nan)), self.index, self.shape)

    def small_scales(self, tiles: Array) -> Array:
        """Return the small scales of `[..., tile, N]`, 0 on land. Averaging boxes cross the edges of tiles."""
        wrap = spans_globe(self.anomalies["lon"].values)
        small: Array = to_tiles(small_scales(self.on_map(tiles), wrap, self._ocean_on_map), self.index)
        np.copyto(small, 0, where=~self.ocean)
        return small

    @cached_property
    def _ocean_on_map(self) -> NDArray[np.bool_]:
        """Mask `[lat, lon]` of the scored cells."""
        return np.isfinite(self.on_map(self.area))

    def weeks_on_map(self, by_week: Array) -> Array | da.Array:
        """Put `[starts, week, tile, N]` on the map like `on_map`, lazily if the array is memory-mapped."""
        if not isinstance(by_week, np.memmap):
            return self.on_map(by_week)
        dates, weeks = by_week.shape[:2]
        # A map a chunk would make as many tasks as maps, which take longer than the maps.
        length = min(DATES_AT_ONCE, max(1, BLOCK_ELEMENTS // int(np.prod(self.shape))))
        lengths = tuple(min(length, dates - first) for first in range(0, dates, length))

        def maps_of_week(block_id: tuple[int, ...]) -> Array:
            release()
            first, week = block_id[0] * length, block_id[1]
            return self.on_map(by_week[first : first + length, week])[:, None]

        return da.map_blocks(
            maps_of_week,
            name=f"on-map-{uuid4()}",  # without a name, dask would hash everything in `self`
            chunks=(lengths, (1,) * weeks, *self.shape),
            dtype=np.float32,
            meta=np.empty((0,) * 4, np.float32),
        )

    def on_tiles(self, field: xr.DataArray) -> Array:
        """Cut `field(..., lat, lon)` into `[..., tile, N]`, 0 on land."""
        tiles = to_tiles(field.transpose(..., "lat", "lon").values, self.index).astype(np.float32, copy=False)
        np.copyto(tiles, 0, where=~self.ocean)
        return tiles


def _spacing(at: NDArray[np.integer]) -> int:
    """Return the largest number of days of which all spacings are a multiple, 1 of a single date."""
    return int(np.gcd.reduce(np.diff(at))) if len(at) > 1 else 1


def _forecasts(at: NDArray[np.integer]) -> int:
    """Return the number of evenly spaced dates among which all of `at` are."""
    return int(at[-1] - at[0]) // _spacing(at) + 1


def sum_to_one(weights: NDArray[np.generic]) -> NDArray[np.float32]:
    """Normalise `weights` to sum to 1."""
    return (weights / weights.sum(dtype=float)).astype(np.float32)
