"""Reads daily SST in degC, or another daily field, with any names and units, from any source of `daily_field`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import DataConfig, FieldSource, Region
from sstcast.errors import SSTCastError, counted
from sstcast.geo import step
from sstcast.log import LOG, warn_once
from sstcast.names import DAY
from sstcast.reading.any_grid import any_grid_weights, around_grid, cells_across, target_of
from sstcast.reading.bounds import bounds_name
from sstcast.reading.daily_field import REMEDY, DailyField, read_parts, short_hash, source_of
from sstcast.reading.fields import CELLS, MISPLACED, Found, find_field, is_leapless, steps_a_day, zone
from sstcast.reading.flags import ValidRange, tell_invalid
from sstcast.reading.gaps import GapRule, continuous
from sstcast.reading.grid import coarsen, crop, ocean_fraction, sorted_eastward
from sstcast.reading.hours import NO_SST, RefusedHours, days_of_field
from sstcast.reading.layouts import COMMON_NAMES, Layout
from sstcast.reading.positions import SPACE
from sstcast.reading.raw import is_raw_store
from sstcast.reading.sea import judged, sea_of, without_land
from sstcast.reading.source_grid import Cells
from sstcast.reading.valid_days import Periods, averages, days_and_notes, joined, periods
from sstcast.reading.weights import Weights
from sstcast.storage.artefacts import is_up_to_date, read_recipe
from sstcast.storage.cf import rounded
from sstcast.storage.stores import open_netcdf

OCEAN = "ocean.nc"  # beside a cube from a source on no axes, the mask of the source's cells
SHARE = "share"  # attribute of SST with `data.grid`: the share of sea of its cells
NAMED = ("variable", "units", "gaps")  # keys that are always in the hash of a source's name
ALL_DAYS = GapRule()
GRID_TOLERANCE = 1e-3  # tolerance for coordinates as a fraction of a cell
NO_LEAP_DAYS = "has no leap days; its dates are kept, and each 29 February is missing"


@dataclass(frozen=True)
class FieldInFile:
    """The field in one file or store.

    Attributes:
        path: the file or store.
        field: its values.
        units: the units of the file.
        notes: sentences about how it is read.
        valid: its range of valid values, if it has one.
        title: the title of its data.
        averages: the attribute, if any, that calls its values averages over unknown periods.
        preliminary: whether days from other files replace its days.
        standard_name: its standard name, if it has one.
        close: closes the file.
        found: of observations, the field as it was found.
        days: of observations, the periods of their values, if these are days.
    """

    path: Path
    field: xr.DataArray
    units: str = ""
    notes: Sequence[str] = ()
    valid: ValidRange | None = None
    title: str = ""
    averages: str = ""
    preliminary: bool = False
    standard_name: str = ""
    close: Callable[[], None] = lambda: None
    found: Found | None = None
    days: Periods | None = None


MergedDays = tuple[list[FieldInFile], xr.DataArray]


def source_name(data: DataConfig) -> str:
    """Name a source by its file name and a hash of its full path and the keys that control reading.

    Those that are not in `NAMED` are only in the hash if they have not their defaults.
    """
    fields = type(data).model_fields
    others = {key: value for key, value in data.reading.items() if key not in ("region", *NAMED)}
    others = {key: value for key, value in others.items() if value != fields[key].default}
    return source_of(data.source).name(*(getattr(data, key) for key in NAMED), *([others] if others else ()))


def folder_of(data: DataConfig) -> Path:
    """Return the folder of the stores that are made from a source and region."""
    region = data.region if isinstance(data.region, str) else f"box{short_hash(data.region.model_dump_json())}"
    return data.directory / f"{source_name(data)}-{region}"


def open_region(data: DataConfig, find_ocean: bool = False, rule: GapRule = ALL_DAYS) -> xr.DataArray:
    """Open the region's days lazily, as `sst(time, lat, lon)` in degC on the source's cells, without gaps.

    The record ends before a gap after the validation that cannot be filled, unless a `rule` says otherwise (see
    `gaps.continuous`).

    Land is NaN, and each day has one value, at 00:00. If gaps are filled, the coordinate `filled(time)` counts the
    filled cells. The attribute `title` names the data. Values are not checked here but by `plausible.checked`,
    unless they are averaged. Use a `with` statement to close the files, because HDF5 does not let a process write
    to a file that it has open.

    Land is where no day of the first year has a value, and where every day has the same number. On no axes of
    latitude and longitude, it is what `prepare` found and keeps beside the cube, unless it is to be found anew
    (`find_ocean`), and the attribute `ocean` holds the mask of the source's cells. With `data.grid`, the attribute
    `share` is the share of sea of each cell, `(lat, lon)`.

    Raises SSTCastError if the source cannot be read, does not cover the region, or lacks more than `data.gaps`
    consecutive days before the validation has ended.
    """
    kept = None if find_ocean or data.grid is None else _kept_ocean(folder_of(data))
    opened = open_cells(data, data.box, kept)
    with _closed_on_error(opened.close):
        sst = continuous(opened, data, rule, folder_of(data) / "cube.zarr")
        attributes = dict(sst.attrs)
        if (across := cells_across(opened, data)) > 1:
            blocks, sea = data.box.model_copy(update={"coarsen": across}), sea_of(opened)
            sst = coarsen(judged(sst, sea.values, data.path), sea, blocks)
            attributes[SHARE] = ocean_fraction(sea, blocks)
        sst = sst.assign_attrs(attributes)
    sst.set_close(opened.close)
    return sst


def open_cells(days: FieldSource, box: Region | None = None, ocean: xr.DataArray | None = None) -> xr.DataArray:
    """Open days lazily as `open_sst` does, with NaN on land, but perhaps with gaps.

    They are those of a box, by default of the whole extent from west to east, in one chunk a day.
    """
    opened, path = open_sst(days, ocean), days.path
    with _closed_on_error(opened.close):
        if box is None:
            sst = sorted_eastward(opened).chunk(lat=-1, lon=-1)
        else:
            finer = box.model_copy(update={"coarsen": box.coarsen * cells_across(opened, days)})
            sst = crop(opened, finer, path)
        if "ocean" not in opened.attrs:  # on other grids, land has been found
            sst = without_land(sst, path, source_of(days.source).checked)
        sst = sst.assign_attrs(opened.attrs)
    sst.set_close(opened.close)
    return sst


def _kept_ocean(folder: Path) -> xr.DataArray | None:
    """Return the mask with which the cube in a folder was made, or None if there is none."""
    recipe, path = read_recipe(folder / "cube.zarr"), folder / OCEAN
    is_kept = recipe is not None and is_up_to_date(path, recipe)
    return open_netcdf(path, REMEDY).load()["ocean"].astype(bool) if is_kept else None


def open_sst(
    days: FieldSource, ocean: xr.DataArray | None = None, refused: RefusedHours | None = NO_SST
) -> xr.DataArray:
    """Open daily SST lazily, as dask arrays, in its whole extent.

    A folder may have a file per day or year. The result is `sst(time, lat, lon)` in degC with ascending time
    and latitude, NaN on land, and one value per day at 00:00. Days may be missing. The attribute `title` names the
    data, and `variable` what is read. On no axes of latitude and longitude, days are judged and brought to the
    cells of `data.grid` (see `open_region`). `averages` names the attribute, if any, that calls them averages, if
    no bounds tell over which periods.
    `refused` are values that are not averaged to days. Close the result after use, as for `open_region`.

    Raises SSTCastError if the path is absent or cannot be read, SST, its units or axes are not found, or a day
    appears twice.
    """
    path = days.path
    parts, sst = _merged_days(days, True, refused)
    close, sst = sst.close, sst.rename("sst")
    title = source_of(days.source).title or parts[0].title
    kept: dict[str, Any] = {"title": title, "averages": parts[0].averages, "variable": str(parts[0].field.name)}
    if CELLS in sst.attrs:
        with _closed_on_error(close):
            on_grid, mask, weights = _on_grid(sst, days, ocean)
        warn_once(f"{path}: {parts[0].field.name} is read {weights.method}")
        kept |= {"title": f"{title}; regridded: {weights.method}", "ocean": mask}
        share = xr.DataArray(
            np.asarray(weights.share).clip(max=1), {axis: on_grid[axis] for axis in ("lat", "lon")}, ("lat", "lon")
        )
        kept[SHARE] = rounded(share)
        sst = on_grid
    sst = sst.drop_attrs().assign_attrs(kept)
    sst.set_close(close)
    LOG.debug(
        f"{path}: read {parts[0].field.name} as SST: {counted(sst.sizes['time'], 'day')}, "
        f"{sst.sizes['lat']} x {sst.sizes['lon']} cells, from {counted(len(parts), 'file')}"
    )
    return sst


def _on_grid(
    sst: xr.DataArray, days: FieldSource, kept: xr.DataArray | None
) -> tuple[xr.DataArray, xr.DataArray, Weights]:
    """Judge `sst(time, row, column)` on its own cells, and bring it to those of `data.grid`.

    Also returns the mask of its cells that are ocean, and the weights. `kept` is that of `open_region`.
    """
    path, cells, target = days.path, sst.attrs[CELLS], target_of(days)
    rows, columns = around_grid(cells, target)
    window, is_checked = sst[:, rows, columns], source_of(days.source).checked
    if kept is not None and kept.attrs[CELLS] == cells.digest:
        ocean = kept
        window = without_land(window, path, is_checked, kept[rows, columns])
    else:
        ocean = xr.DataArray(np.zeros(cells.shape, bool), dims=SPACE, attrs={CELLS: cells.digest})
        window = without_land(window, path, is_checked)
        ocean[rows, columns] = sea_of(window)
        if lost := int((ocean.values & np.isnan(cells.lat.reshape(cells.shape))).sum()):
            warn_once(f"{path}: left out: {counted(lost, 'cell')} of the sea without a position")
    folder = getattr(days, "directory", None)
    weights = any_grid_weights(
        cells, target, path, ocean.values, days.box.min_ocean, None if folder is None else Path(folder) / "weights"
    )
    part = weights.read(window, (rows.start, columns.start))
    return weights(judged(part, weights.used(np.isfinite(weights.least)), path)), ocean, weights


def open_daily(days: FieldSource, refused: RefusedHours | None = None) -> xr.DataArray:
    """Open any daily field lazily, as `open_sst` opens SST, in its own units, which the attribute `units` holds.

    It may be on no axes of latitude and longitude (see `find_field`). `refused` are values that are
    not averaged to days. Raises SSTCastError like `open_sst`, and if units differ.
    """
    parts, field = _merged_days(days, False, refused)
    units, close = parts[0].units, field.close
    if differing := [part for part in parts if part.units != units]:
        close()
        raise SSTCastError(
            f"{differing[0].path}: is in {differing[0].units!r}, but {parts[0].path} in {units!r}; convert it, or "
            "set data.units if both are the same"
        )
    field = field.assign_attrs(units=units)
    field.set_close(close)
    return field


def _merged_days(days: FieldSource, is_sst: bool, refused: RefusedHours | None) -> MergedDays:
    """Return the parts of a source of daily values, and their merged field, which closes them."""
    path, source = days.path, source_of(days.source)
    options = {"variable": days.variable, "units": days.units, "true_positions": days.grid is not None}
    options["any_grid"] = days.grid is not None or not is_sst
    read = partial(_observations, source=source, options=options, layouts={}, is_sst=is_sst)
    parts = read_parts(path, read)
    with _closed_on_error(_closing(parts, path)):
        _check_names(parts, COMMON_NAMES if is_sst else ())
        if _are_hours(parts):
            parts, field = _days_of_hours(parts, path, refused)
        else:
            parts = [_dated(part) for part in parts]
            field = merge(parts, "time")
        if not source.checked:
            _check_daily(field.indexes["time"], path)
    field.set_close(_closing(parts, path))
    for note in dict.fromkeys(note for part in parts for note in part.notes):
        warn_once(f"{path}: {note}")
    return parts, field


def source_grid(days: FieldSource) -> Cells | None:
    """Return the cells of the first file of a source, or None if they lie where axes of lat and lon have them.

    Raises SSTCastError like `open_sst`.
    """
    path, dataset = next(source_of(days.path).datasets())
    with dataset:
        find = partial(find_field, dataset, path, variable=days.variable, units=days.units, any_grid=True)
        field = find().field
        cells: Cells | None = (find(true_positions=True).field if MISPLACED in field.coords else field).attrs.get(
            CELLS
        )
        return cells


@contextmanager
def _closed_on_error(close: Callable[[], None]) -> Iterator[None]:
    """Close the files of a field if it is refused, so that they can be mended and opened again."""
    try:
        yield
    except BaseException:
        close()
        raise


def _closing(parts: Sequence[FieldInFile], path: Path) -> Callable[[], None]:
    """Return what closes the files, and logs how many values that were read lie outside their valid range."""
    open_files = ExitStack()
    open_files.callback(tell_invalid, path, [part.valid for part in parts])
    for part in parts:
        open_files.callback(part.close)
    return open_files.close


def _observations(
    path: Path,
    dataset: xr.Dataset,
    source: DailyField,
    options: Mapping[str, Any],
    layouts: dict[Any, Layout],
    is_sst: bool,
) -> FieldInFile:
    """Return the SST, or another field, in a dataset as `sst(time, lat, lon)`, with every day at 00:00.

    `options` are those of `find_field` that come from the configuration.
    """
    if options["variable"] is None and not is_sst and is_raw_store(path):
        options = {**options, "variable": "sst"}  # even if ice is kept beside it later
    found = find_field(dataset, path, layouts=layouts, is_sst=is_sst, **options)
    field, time = found.field, found.axis("time")
    notes = [f"{field.name} is read {note}" for note in found.notes]
    notes += [NO_LEAP_DAYS] if is_leapless(time) else []
    kind = "" if bounds_name(time) else averages(found.stored)
    texts = (str(dataset.attrs.get(name, "")).strip() for name in ("title", "institution"))
    title, institution = texts
    title = title or (f"sea surface temperature of {institution} ({path.name})" if institution else path.name)
    preliminary = "preliminary" in str(dataset.attrs.get("id", "")).lower()
    days = periods(time, dataset, path, DAY)
    standard_name = str(found.stored.attrs.get("standard_name", ""))
    known = (path, field, found.units, notes, found.valid, title, kind, preliminary, standard_name)
    return FieldInFile(*known, dataset.close, found, days)


def _dated(part: FieldInFile) -> FieldInFile:
    """Return a field of daily values with each at 00:00 of its day. Raises SSTCastError if a day has two."""
    assert part.found is not None
    assert part.days is not None
    name = part.found.axis("time").name
    days, notes = days_and_notes(part.days, str(name))
    if days.has_duplicates:
        twice = f"{days[days.duplicated()][0]:%Y-%m-%d}"
        raise SSTCastError(f"{part.path}: {name} has {twice} twice; one value per day is needed: remove one")
    return replace(part, field=part.field.assign_coords(time=days), notes=[*part.notes, *notes])


def _are_hours(parts: Sequence[FieldInFile]) -> bool:
    """Return whether files hold several values a day, as each of several dates does by its own.

    Files of one date each are judged together, but the preliminary ones apart, as final ones may repeat their
    days. Raises SSTCastError if some files hold a value a day, and others several.
    """
    together: dict[Any, list[tuple[Path, Any]]] = {}
    for number, part in enumerate(parts):
        assert part.days is not None
        labels = np.unique(part.days.labels)
        together.setdefault(number if labels.size > 1 else f"{part.preliminary}", []).append((part.path, labels))
    of_hours: dict[bool, Path] = {}
    for found in together.values():
        labels = np.unique(np.concatenate([labels for _, labels in found]))
        if labels.size > 1:
            of_hours.setdefault(steps_a_day(labels) > 1, found[0][0])
    if len(of_hours) > 1:
        raise SSTCastError(
            f"{of_hours[False]} holds a value a day, but {of_hours[True]} several; keep one kind in the folder"
        )
    return True in of_hours


def _days_of_hours(parts: Sequence[FieldInFile], path: Path, refused: RefusedHours | None) -> MergedDays:
    """Return files of several values a day, and the means of days of their merged values, in UTC."""
    dated: list[FieldInFile] = []
    each: list[Periods] = []
    attributes: dict[str, Any] = {}
    for part in parts:
        assert part.found is not None
        time = part.found.axis("time")
        found = periods(time, part.found.dataset, part.path).shifted(-zone(time))
        each.append(found)
        dated.append(
            replace(part, field=part.field.assign_coords(time=found.labels.astype("M8[ns]")), averages="")
        )
        attributes |= part.found.stored.attrs
    name = parts[0].field.name
    field, note = days_of_field(merge(dated, "time"), joined(each), attributes, f"{path}: {name}", path, refused)
    dated[0] = replace(dated[0], notes=[*dated[0].notes, f"{name} is read {note}"])
    return dated, field


def _check_names(parts: Sequence[FieldInFile], alike: Sequence[str]) -> None:
    """Raise SSTCastError if a file in a folder holds another variable, such as a mask.

    Variables are the same if their names, case apart, or their standard names are, or both names are `alike`.
    """
    names = [str(part.field.name).lower() for part in parts]
    first = next((index for index, name in enumerate(names) if name in alike), 0)
    for part, name in zip(parts, names, strict=True):
        has_name = name == names[first] or {name, names[first]} <= {*alike}
        has_standard_name = part.standard_name != "" and part.standard_name == parts[first].standard_name
        if not has_name and not has_standard_name:
            raise SSTCastError(
                f"{part.path}: holds {part.field.name}, not the {parts[first].field.name} of "
                f"{parts[first].path}; move it out of the folder, or rename its variable"
            )


def _check_daily(days: pd.DatetimeIndex, path: Path) -> None:
    """Raise SSTCastError if the median step of ascending `days` is not one day."""
    step = np.median(np.diff(days.values)) / np.timedelta64(1, "D") if len(days) > 2 else 1
    if step != 1:
        raise SSTCastError(
            f"{path}: has a value every {step:g} days, from {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}; sstcast "
            "needs daily means and cannot use weekly or monthly ones: give daily data"
        )


def merge(parts: Sequence[FieldInFile], along: str) -> xr.DataArray:
    """Merge the fields of files in order of their dates on the axis `along`, on the cells of the first field.

    Final days replace preliminary ones. Raises SSTCastError if two final or two preliminary fields hold the same
    date, or fields differ in another axis.
    """
    first = parts[0]
    if len(parts) == 1:
        return placed(first.field.sortby(along), first.field.attrs.get(CELLS))
    days = np.concatenate([part.field[along].values for part in parts])
    owner = np.repeat(np.arange(len(parts)), [part.field.sizes[along] for part in parts])
    table = pd.DataFrame({"day": days, "part": owner})
    table["preliminary"] = np.array([part.preliminary for part in parts])[owner]
    table = table.sort_values(["day", "preliminary"], kind="stable")
    if (duplicates := table[table.duplicated(["day", "preliminary"], keep=False)]).size:
        numbers = duplicates["part"][:2].tolist()
        shared = duplicates["day"][duplicates["part"] == numbers[0]]
        shared = shared[shared.isin(duplicates["day"][duplicates["part"] == numbers[1]])]
        begin, end = (f"{day:%Y-%m-%d}" for day in (shared.min(), shared.max()))
        told = f"overlap from {begin} to {end}; cut one" if end != begin else f"both hold {begin}; remove one"
        first_path, second_path = (parts[number].path for number in numbers)
        raise SSTCastError(f"{first_path} and {second_path}: {told}")
    day_mask = ~table.duplicated("day").sort_index().to_numpy()
    fields = []
    for number, part in enumerate(parts):
        part_mask = day_mask[owner == number]
        if part_mask.any():
            field = _aligned(part, first, along)
            fields.append(field if part_mask.all() else field.isel({along: np.flatnonzero(part_mask)}))
    axis = first.field.get_axis_num(along)
    sst = xr.DataArray(
        da.concatenate([field.data for field in fields], axis),
        dims=first.field.dims,
        coords={**first.field.drop_vars(along).coords, along: days[day_mask]},
    )
    sst = sst if sst.indexes[along].is_monotonic_increasing else sst.sortby(along)
    return placed(sst, first.field.attrs.get(CELLS))


def placed(field: xr.DataArray, cells: Cells | None) -> xr.DataArray:
    """Give a field the positions of its cells, if they lie on no axes, as coordinates and attribute."""
    if cells is None:
        return field
    positions = {
        axis: (SPACE, values.reshape(cells.shape)) for axis, values in (("lat", cells.lat), ("lon", cells.lon))
    }
    return field.assign_coords(positions).assign_attrs({CELLS: cells})


def _aligned(part: FieldInFile, first: FieldInFile, along: str) -> xr.DataArray:
    """Return the field of a part. Raises SSTCastError if any axis but `along` differs from the first part's."""
    field, reference = part.field, first.field
    own, others = (each.attrs.get(CELLS) for each in (field, reference))
    if own is not others:
        raise SSTCastError(f"{part.path}: its cells are not those of {first.path}; keep one grid per folder")
    for axis in set(reference.dims) - {along, "lat", "lon", *SPACE}:
        if not np.array_equal(field[axis], reference[axis]):
            join = f'xr.open_mfdataset(FILES, combine="nested", concat_dim="{along}", join="outer")'
            remedy = f"save them as one, in which members that a date lacks are NaN, as {join} joins them"
            raise SSTCastError(
                f"{part.path}: has {field.sizes[axis]} {axis}s, not the {reference.sizes[axis]} of {first.path}; "
                f"{remedy if axis == 'member' else 'give files with equal axes'}"
            )
    if own is not None:
        return field
    (lat, lon), (to_lat, to_lon) = ((f["lat"].values, f["lon"].values) for f in (field, reference))
    if (lat.size, lon.size) == (to_lat.size, to_lon.size):
        offsets = (
            abs(lat - to_lat).max() / step(to_lat),
            abs((lon - to_lon + 180) % 360 - 180).max() / step(to_lon),
        )
        if max(offsets) <= GRID_TOLERANCE:
            return field
    raise SSTCastError(
        f"{part.path}: its {lat.size} x {lon.size} cells, lat {lat[0]:g}..{lat[-1]:g}, "
        f"lon {lon[0]:g}..{lon[-1]:g}, are not the cells of {first.path}; keep one grid per folder"
    )
