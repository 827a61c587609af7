"""Transfer of a run to another ocean: it keeps its weights, and uses that ocean's climatology and scale."""

import datetime as dt
import math
from typing import Any

from sstcast.config import LONGEST_NAME, DataConfig, FieldSource, Region, RunConfig, parse_box
from sstcast.errors import SSTCastError
from sstcast.geo import Box, step
from sstcast.models import LINEAR, LINEAR_BASES, base_of, transfer_of
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, Record, check_source, source_name
from sstcast.ocean.splits import LEAST_YEARS, check_splits, clipped, for_forecasts, for_training, last_test
from sstcast.reading.daily_field import source_of
from sstcast.reading.grid import crop
from sstcast.reading.objects import hold, open_object, release
from sstcast.reading.reading import open_region, open_sst, source_grid
from sstcast.runs import ELSEWHERE, Run, file_name, provenance
from sstcast.storage.artefacts import atomic, locked, write_json
from sstcast.storage.yaml_files import save_config
from sstcast.training.data_record import record_of

OWN = FieldSource()  # gives no key, so a run keeps its own days
OTHER_DAYS = "give the object that the run was trained on, or a region as well, to use it as another ocean's"
SIDES = range(6, 121)  # possible numbers of rows or columns of a tile


def transferred_data(
    run: Run, days: FieldSource, to_forecast: bool = False, date: dt.date | None = None
) -> DataConfig:
    """Return the data configuration of a run for the region, the source, or both that were given in `days`.

    A region `W,E,S,N` is averaged in the same way as the run's region. Graph models accept tiles of any shape. If
    the source does not contain the run's region, they forecast all of the source.

    With `to_forecast`, no day is tested. The splits are from `splits.for_forecasts`, for a record that ends on the
    initial `date`, by default on its last day. Otherwise they are the run's, clipped to the days in the source. If
    the record begins after the run's training days, they are chosen as for training on it.

    Raises SSTCastError if the region or source does not exist, the source has too few days, or the run's model
    requires another shape of tile.
    """
    data, options = run.config.data, days.given
    region, source = options.pop("region", None), options.pop("source", None)
    new_region: Region | str = data.region if region is None else region
    if region is not None and "," in region:
        new_region = _cut_as(data.box, parse_box(region))
    new_data = data.model_copy(update={"region": new_region})
    models = [system.config.model for system in run.systems]
    transfers = {model.name: transfer_of(model.name, model.options) for model in models}
    if source is not None:
        new_data = _of_source(new_data, days, data)
    elif options:
        raise SSTCastError(f"--{next(iter(options))}: applies to another source; name it with --source")
    if set(transfers.values()) == {"anywhere"} and (source is not None or "," in (region or "")):
        new_data = _fitted(new_data, anywhere=region is None)
    for name, transfer in transfers.items():
        if transfer == "region" and new_data.box != data.box:
            raise SSTCastError(
                f"--region {region}: model {name} is fitted to each cell of its own region; choose another model"
            )
        if transfer == "tile" and new_data.box.tile != data.box.tile:
            shapes = " x ".join(map(str, data.box.tile)), " x ".join(map(str, new_data.box.tile))
            raise SSTCastError(
                f"--region {region}: model {name} needs tiles of {shapes[0]}, but the region's are {shapes[1]}; "
                "choose a graph model"
            )
    return new_data if source is None else _of_days(new_data, to_forecast, date)


def continued(run: Run, days: FieldSource) -> FieldSource:
    """Use an object in `days` as the run's own source, if that is an object. Returns the rest of `days`.

    With a region, the object is another ocean's. Raises SSTCastError if a day in the run's splits is lost or
    differs.
    """
    run_data, options = run.config.data, days.given
    if "region" in options or not all(source_of(data.source).needs_python for data in (run_data, days)):
        return days
    del options["source"]
    if run_data.source != days.source:
        previous_object = release(run_data.source)
        hold(open_object(days.path), run_data.source)
        try:
            if (prepared := Prepared.of(run_data)).exist:
                check_source(prepared, OTHER_DAYS)
        except SSTCastError:
            release(run_data.source)
            if previous_object is not None:
                hold(previous_object, run_data.source)
            raise
    return FieldSource(**options)


def newest_data(run: Run, last: dt.date) -> DataConfig:
    """Return the data configuration with which a run forecasts its own ocean from days up to `last`.

    For linear systems and networks with linear bases, the climatology and the linear fit extend to the last whole
    year that is followed by a window. Other networks keep the run's data, and so does a run whose splits already
    reach that year, or whose record is too short for a climatology up to it.
    """
    data = run.config.data
    models = [system.config.model for system in run.systems]
    is_refitted = all(model.name in LINEAR or base_of(model.options)[0] in LINEAR_BASES for model in models)
    first, test_start = data.splits.train[0], last_test(data, last)
    if not is_refitted or test_start <= data.splits.test[0] or (test_start - first).days < 365 * LEAST_YEARS:
        return data
    splits = for_forecasts(data, first, last, str(run.folder))
    return data.model_copy(update={"splits": splits})


def transferred_run(run: Run, days: FieldSource) -> Run:
    """Make or update the folder `RUN/elsewhere-NAME` of a run on another ocean, and prepare that ocean.

    In its configuration, `data` is the other ocean and `trained_on` is the run's own.
    Raises SSTCastError in the same cases as `transferred_data` and `prepare`.
    """
    run = run.trained
    data = transferred_data(run, days)
    record = prepare(data).record()
    new_run = Run(run.folder / file_name(f"{ELSEWHERE}{source_name(data)}-{data.place}")[:LONGEST_NAME])
    config = run.config.model_copy(
        update={"name": new_run.folder.name, "runs": run.folder, "data": data, "trained_on": run.config.data}
    )
    with locked(new_run.folder):
        if not _is_made(new_run, config, record):
            with atomic(new_run.folder) as temporary:
                temporary.mkdir()
                write_json(temporary / "provenance.json", provenance())
                record.save(Run(temporary).data)
                save_config(config, Run(temporary).config_file, {"training"} if run.parts else None)
    return new_run


def _is_made(run: Run, config: RunConfig, record: Record) -> bool:
    try:
        return run.config_file.exists() and not run.config.difference(config) and record_of(run) == record
    except SSTCastError:  # damaged
        return False


def _cut_as(region: Region, box: Box) -> Region:
    edges = {"lon": (box.west, box.east), "lat": (box.south, box.north)}
    return region.model_copy(update=edges | {"skip": (), "land_tiles": "keep"})


def _of_source(data: DataConfig, days: FieldSource, own: DataConfig) -> DataConfig:
    """Return `data` with the source of `days`. Raises SSTCastError if it does not exist."""
    options: dict[str, Any] = {"variable": None, "units": None, "grid": None}
    if own.path == days.path:  # a source that the run was trained on is read with the same options
        options = {"variable": own.variable, "units": own.units, "gaps": own.gaps, "grid": own.grid}
    source = source_of(days.source)
    if not days.source or not (source.needs_python or source.exists()):
        raise SSTCastError(f"--source {days.source}: no such file or folder")
    if days.grid is None and options["grid"] is None and source_grid(days) is not None:  # to cells like the run's
        options["grid"] = round(step(Prepared.of(own).open_cube()["lat"].values), 6)
    return data.model_copy(update=options | days.given | {"region": data.region})


def _fitted(data: DataConfig, anywhere: bool) -> DataConfig:
    """Choose a tile shape that fits the region.

    If `anywhere`, and the source does not contain the region, replace the region by the whole source.
    """
    path = data.path
    with open_sst(data) as sst:
        if anywhere:
            try:
                crop(sst, data.box, path)
                return data
            except SSTCastError:
                data = data.model_copy(update={"region": _cut_as(data.box, Box.of(sst))})
        single = data.box.model_copy(update={"tile": (1, 1)})
        cells = crop(sst, single, path).sizes
    rows, columns = (cells[axis] // single.coarsen for axis in ("lat", "lon"))
    if rows < min(SIDES[0], data.box.tile[0]) or columns < min(SIDES[0], data.box.tile[1]):
        raise SSTCastError(
            f"{path}: {rows} x {columns} cells are too few for a forecast; give at least {SIDES[0]} on each side"
        )
    tile = tuple(_side(size, side) for size, side in zip((rows, columns), data.box.tile, strict=True))
    return data.model_copy(update={"region": data.box.model_copy(update={"tile": tile})})


def _side(cells: int, target: int) -> int:
    """Return the tile side that divides `cells` and is nearest to `target`, or `target` itself if no side fits."""
    divisors = [side for side in (target, *SIDES) if cells % side == 0]
    return min(divisors, key=lambda side: abs(math.log(side / target)), default=target)


def _of_days(data: DataConfig, to_forecast: bool, date: dt.date | None) -> DataConfig:
    """Return `data` with splits that fit the days in its source (see `transferred_data`)."""
    where = f"--source {data.source}"
    with open_region(data) as sst:
        time = sst["time"].values
    first, last = (time[i].astype("datetime64[D]").item() for i in (0, -1))
    if to_forecast:
        splits = for_forecasts(data, first, min(last, date or last), where)
    elif first > data.splits.train[1]:
        splits = for_training(first, last, data.path)[2]
    else:
        splits = clipped(data.splits, first, last, where)
    new_data = data.model_copy(update={"splits": splits})
    try:
        check_splits(new_data, time)
    except SSTCastError as error:
        raise SSTCastError(f"{where}: holds {first}..{last}, which is too little of the run's {error}") from None
    return new_data
