"""A run on an ocean it was not trained on: its weights, and the climatology and scale of that ocean's own days."""

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from sstcast.artefacts import atomic, locked
from sstcast.config import DataConfig, Region, RunConfig, parse_box
from sstcast.errors import SSTCastError
from sstcast.geo import Box
from sstcast.models import LINEAR, LINEAR_BASES, base_of, transfer_of
from sstcast.models.base import Transfer
from sstcast.ocean.grid import crop
from sstcast.ocean.prepare import check_splits, prepare
from sstcast.ocean.prepared import Prepared, Record, source_name
from sstcast.ocean.reading import open_region, open_sst, source_path
from sstcast.ocean.splits import clipped, for_forecasts, for_training, last_test
from sstcast.runs import ELSEWHERE, Run, provenance, write_json
from sstcast.yaml_files import save_config, validate

LONGEST_NAME = 100  # of a run
SIDES = range(6, 121)  # rows or columns of tiles that a box may be cut into


def transferred_data(
    run: Run,
    region: str | None = None,
    source: str | None = None,
    to_forecast: bool = False,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
) -> DataConfig:
    """Return a run's data for another region, another source, or both.

    A box `W,E,S,N` is averaged as the run's is. Models of graphs take tiles of any shape, and all of a source that
    does not hold the run's region. Another source is read by its own variable and units, unless `variable` and
    `units` are given; `gaps` of that many days are filled, by default as the run's are. The splits are as much of
    the run's as it has days of; of a record that begins after the run's training days, they are its own last
    years; and `to_forecast`, the climatology is of all years of the record.

    Raises SSTCastError if there is no such region or source, the source has too few of the days, or the run's
    model cannot leave its shape of tile.
    """
    data = run.config.data
    place: Region | str = data.region if region is None else region
    if region is not None and "," in region:
        place = _cut_as(data.box, parse_box(region))
    other = data.model_copy(update={"region": place})
    transfers = dict(_transfers(run))
    reading = {"variable": variable, "units": units, "gaps": gaps}
    given = {key: value for key, value in reading.items() if value is not None}
    if source is not None:
        other = _of_source(other, source, run.config.also, given)
    elif given:
        raise SSTCastError(f"--{next(iter(given))}: is for another source; name it with --source")
    if set(transfers.values()) == {"anywhere"} and (source is not None or "," in (region or "")):
        other = _fitted(other, anywhere=region is None)
    for name, transfer in transfers.items():
        if transfer == "region" and other.box != data.box:
            raise SSTCastError(
                f"--region {region}: model {name} knows the cells of its own region; choose another"
            )
        if transfer == "tile" and other.box.tile != data.box.tile:
            shapes = " x ".join(map(str, data.box.tile)), " x ".join(map(str, other.box.tile))
            raise SSTCastError(
                f"--region {region}: model {name} knows tiles of {shapes[0]} only, the region's are {shapes[1]}; "
                "choose a graph model"
            )
    return other if source is None else _of_days(other, source, to_forecast)


def newest_data(run: Run, last: dt.date) -> DataConfig:
    """Return the data that a run forecasts its own ocean with from days up to `last`.

    Linear systems, and networks on linear bases, are fitted up to the last whole year that a window follows; so is
    the climatology. Other networks keep the days they were trained on, and so does a run that has learnt as late.
    """
    data = run.config.data
    if not all(_is_fitted(part) for part in run.trained.open_parts() or [run]):
        return data
    if last_test(data, last) <= data.splits.test[0]:
        return data
    splits = for_forecasts(data, data.splits.train[0], last, str(run.folder))
    return data.model_copy(update={"splits": splits})


def _is_fitted(run: Run) -> bool:
    model = run.config.model
    return model.name in LINEAR or base_of(model.options)[0] in LINEAR_BASES


def transferred_run(run: Run, source: str | None, region: str | None, say: Callable[[str], object] = print) -> Run:
    """Make, or bring up to date, the folder `RUN/elsewhere-NAME` for a run on another ocean, which is prepared.

    Its configuration holds the other ocean as `data`, and the run's own as `trained_on`. `say` gets a line for
    what is prepared. Raises SSTCastError as `transferred_data` and `prepare` do.
    """
    run = run.trained
    data = transferred_data(run, region, source)
    prepare(data, say)
    record = Prepared.of(data).record()
    place = re.sub(r"[^A-Za-z0-9._-]", "_", f"{source_name(data)}-{data.place}")
    there = Run(run.folder / f"{ELSEWHERE}{place}"[:LONGEST_NAME])
    config = run.config.model_copy(
        update={"name": there.folder.name, "runs": run.folder, "data": data, "trained_on": run.config.data}
    )
    with locked(there.folder):
        if not _is_made(there, config, record):
            with atomic(there.folder) as temporary:
                temporary.mkdir()
                write_json(temporary / "provenance.json", provenance())
                record.write(temporary)
                save_config(config, Run(temporary).config_file, {"training"} if run.parts else None)
    return there


def _is_made(run: Run, config: RunConfig, record: Record) -> bool:
    try:
        return (
            run.config_file.exists() and run.config.same_experiment(config) and Record.read(run.folder) == record
        )
    except SSTCastError:  # damaged
        return False


def _cut_as(region: Region, box: Box) -> Region:
    edges = {"lon": (box.west, box.east), "lat": (box.south, box.north)}
    return region.model_copy(update=edges | {"skip": (), "land_tiles": "keep"})


def _of_source(
    data: DataConfig, source: str, known: Sequence[DataConfig], given: Mapping[str, str | int]
) -> DataConfig:
    """Return the data of another source, which must be there."""
    where = f"--source {source}"
    raw = data.model_dump() | {"source": source, "variable": None, "units": None}
    for ocean in known:  # one that the run was trained on is read as it was then
        if source_path(ocean.source) == source_path(source):
            raw |= {"variable": ocean.variable, "units": ocean.units, "gaps": ocean.gaps}
    other = validate(DataConfig, raw | dict(given), where)
    if not source or not source_path(other.source).exists():
        raise SSTCastError(f"{where}: no such file or folder")
    return other


def _fitted(data: DataConfig, anywhere: bool) -> DataConfig:
    """Cut the region into tiles that fit its cells; if it may lie `anywhere`, take all cells of the source."""
    path = source_path(data.source)
    with open_sst(path, data.variable, data.units) as sst:
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
            f"{path}: {rows} x {columns} cells are too few for a forecast; give at least {SIDES[0]} a side"
        )
    tile = tuple(_side(size, side) for size, side in zip((rows, columns), data.box.tile, strict=True))
    return data.model_copy(update={"region": data.box.model_copy(update={"tile": tile})})


def _side(cells: int, wanted: int) -> int:
    """Return the side of tiles that `cells` are cut into: `wanted` or, if that does not fit, the nearest."""
    fitting = [side for side in (wanted, *SIDES) if cells % side == 0]
    return min(fitting, key=lambda side: abs(math.log(side / wanted)), default=wanted)


def _of_days(data: DataConfig, source: str, to_forecast: bool) -> DataConfig:
    """Return the data with splits that its source has days of."""
    where = f"--source {source}"
    with open_region(data) as sst:
        time = sst["time"].values
    first, last = (time[i].astype("datetime64[D]").item() for i in (0, -1))
    if to_forecast:
        splits = for_forecasts(data, first, last, where)
    elif first > data.splits.train[1]:
        splits = for_training(first, last, source_path(source))[2]
    else:
        splits = clipped(data.splits, first, last, where)
    other = data.model_copy(update={"splits": splits})
    try:
        check_splits(other, time)
    except SSTCastError as error:
        raise SSTCastError(f"{where}: holds {first}..{last}, too little of the run's {error}") from None
    return other


def _transfers(run: Run) -> Iterator[tuple[str, Transfer]]:
    """Yield the models of a run, or of the parts of a combination, and where their weights can be used."""
    run = run.trained
    for part in (parts := run.open_parts()):
        yield from _transfers(part)
    if not parts:
        model = run.config.model
        yield model.name, transfer_of(model.name, model.options)
