"""Transfer of a run to another ocean: it keeps its weights, and uses that ocean's climatology and scale."""

import math
from typing import Any

from sstcast.config import (
    LONGEST_NAME,
    DataConfig,
    FieldSource,
    Region,
    RunConfig,
    Splits,
    load_region,
    parse_box,
)
from sstcast.errors import SSTCastError
from sstcast.geo import Box, step
from sstcast.models import transfer_of
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, Record, check_source
from sstcast.ocean.splits import check_splits, clipped, for_training
from sstcast.reading.any_grid import proposed
from sstcast.reading.daily_field import source_of
from sstcast.reading.gaps import GapRule
from sstcast.reading.grid import crop
from sstcast.reading.reading import open_region, open_sst, source_grid, source_name
from sstcast.reading.xarray_objects import given, hold, let_go
from sstcast.runs import ELSEWHERE, Run, file_name, provenance
from sstcast.storage.artefacts import atomic, locked, write_json
from sstcast.storage.yaml_files import save_config
from sstcast.training.data_record import record_of

OWN = FieldSource()  # gives no key, so a run keeps its own days
OTHER_DAYS = "give the object that the run was trained on, or a region as well, to use it as another ocean's"
SIDES = range(6, 121)  # possible numbers of rows or columns of a tile


def data_of(run: Run, where: FieldSource) -> DataConfig:
    """Return the data configuration of a run for the region, the source, or both that were given in `where`.

    The splits are the run's (see `splits_to_score` and `stores.splits_to_forecast`). What is the run's own is left
    out first (see `continued`). If nothing else was given, this is the run's configuration.

    A region `W,E,S,N` is averaged in the same way as the run's region. Graph models accept tiles of any shape. If
    another source does not contain the run's region, they forecast all of it.

    Raises SSTCastError if the region or source does not exist, or the run's model requires another shape of tile.
    """
    data, where = run.config.data, continued(run, where)
    if not (options := where.given):
        return data
    region, source = options.get("region"), options.get("source")
    if source is None and (unused := [key for key in options if key != "region"]):
        raise SSTCastError(f"--{unused[0]}: applies to another source; name it with --source")
    new_region: Region | str = data.region if region is None else region
    if region is not None and "," in region:
        new_region = _cut_as(data.box, parse_box(region))
    new_data = data.model_copy(update={"region": new_region})
    models = [system.config.model for system in run.systems]
    transfers = {model.name: transfer_of(model.name, model.options) for model in models}
    if source is not None:
        new_data = _of_source(new_data, where, data)
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
    return new_data


def continued(run: Run, where: FieldSource) -> FieldSource:
    """Return `where` without what is the run's own: its source by any path, its region, and how it reads them.

    Without another region, an object stands for the run's own source if that is an object. Raises SSTCastError if
    a day in the run's splits is lost or differs in it.
    """
    data, options = run.config.data, where.given
    if "region" in options and _is_own_region(data, options["region"]):
        del options["region"]
    if "source" not in options:
        return FieldSource(**options)
    if all(source_of(source).needs_python for source in (data.source, where.source)) and "region" not in options:
        _replace_object(data, where)
        options["source"] = data.source
    if is_same_source(data.source, options["source"]):
        keys = {*options} - {"source", "region"}
        own_keys = {key for key in keys if options[key] == getattr(data, key)}
        options = {key: value for key, value in options.items() if key not in own_keys} | {"source": data.source}
        if keys == own_keys:
            del options["source"]
    return FieldSource(**options)


def is_same_source(source: str, other: str) -> bool:
    """Return whether two sources are one, also if they are spelled otherwise or one is a link to the other."""
    paths = [FieldSource(source=text).path.resolve() for text in (source, other)]
    return paths[0] == paths[1]


def _is_own_region(data: DataConfig, region: Region | str) -> bool:
    if not isinstance(region, str):
        return region == data.box
    if "," in region:
        return parse_box(region) == data.box.bounds
    return region == data.region or (bool(region) and load_region(region) == data.box)


def _replace_object(data: DataConfig, where: FieldSource) -> None:
    """Let the object in `where` stand for the run's own, if it holds the same days in the splits of the data."""
    if where.source == data.source:
        return
    hold(given(where.source), data.source)
    try:
        if (prepared := Prepared.of(data)).is_current:
            check_source(prepared, OTHER_DAYS)
    except SSTCastError:
        let_go(data.source)
        raise


def splits_to_score(run: Run, data: DataConfig) -> Splits:
    """Return the splits with which a run is scored on `data`: its own, clipped to the days in another source.

    If the record begins after the run's training days, they are chosen as for training on it. Raises SSTCastError
    if the source has too few days.
    """
    if data.source == run.config.data.source:
        return data.splits
    option = f"--source {data.source}"
    with open_region(data, rule=GapRule(is_own=False)) as sst:
        time = sst["time"].values
    first, last = (time[i].astype("datetime64[D]").item() for i in (0, -1))
    if first > data.splits.train[1]:
        splits = for_training(first, last, data.path)[2]
    else:
        splits = clipped(data.splits, first, last, option)
    try:
        check_splits(data.model_copy(update={"splits": splits}), time)
    except SSTCastError as error:
        raise SSTCastError(f"{option}: holds {first}..{last}, which is too little of the run's {error}") from None
    return splits


def transferred_run(run: Run, where: FieldSource) -> Run:
    """Make or update the folder `RUN/elsewhere-NAME` of a run on another ocean, and prepare that ocean.

    In its configuration, `data` is the other ocean and `trained_on` is the run's own. The run itself is returned
    if `where` gives nothing but its own. Raises SSTCastError in the same cases as `data_of`, `splits_to_score` and
    `prepare`.
    """
    run = run.trained
    if (data := data_of(run, where)) == run.config.data:
        return run
    data = data.model_copy(update={"splits": splits_to_score(run, data)})
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


def _of_source(data: DataConfig, where: FieldSource, own: DataConfig) -> DataConfig:
    """Return `data` with the source of `where`. Raises SSTCastError if it does not exist."""
    source = source_of(where.source)
    if not where.source or not (source.needs_python or source.exists()):
        raise SSTCastError(f"--source {where.source}: no such file or folder")
    options: dict[str, Any] = {}
    if where.source != own.source:
        options = {"variable": None, "units": None, "grid": None}
        if where.grid is None and source_grid(where) is not None:  # to cells like the run's
            options["grid"] = _spacing(own, where.source)
    return data.model_copy(update=options | where.given | {"region": data.region})


def _spacing(own: DataConfig, other: str) -> float:
    """Return the width of the cells of a run's source in degrees, which its stores tell if the source is gone."""
    if own.grid is not None:
        return own.grid
    if source_of(own.source).exists():
        with open_sst(own) as sst:
            return round(step(sst["lat"].values), 6)
    if (cube := Prepared.of(own)).cube.exists():
        return round(step(cube.open_cube()["lat"].values) / own.box.coarsen, 6)
    raise SSTCastError(
        f"--source {other}: its cells are not on axes of latitude and longitude, and neither {own.path} nor "
        "stores made from it tell how wide the run's are; put that source back"
    )


def _fitted(data: DataConfig, anywhere: bool) -> DataConfig:
    """Choose a tile shape that fits the region.

    If `anywhere`, and the source does not contain the region, replace the region by the whole source.
    """
    path = data.path
    if anywhere:
        try:
            with open_sst(data) as sst:
                crop(sst, data.box, path)
            return data
        except SSTCastError:
            data = data.model_copy(update={"region": _cut_as(data.box, _whole(data))})
    with open_sst(data) as sst:
        single = data.box.model_copy(update={"tile": (1, 1)})
        cells = crop(sst, single, path).sizes
    rows, columns = (cells[axis] // single.coarsen for axis in ("lat", "lon"))
    if rows < min(SIDES[0], data.box.tile[0]) or columns < min(SIDES[0], data.box.tile[1]):
        raise SSTCastError(
            f"{path}: {rows} x {columns} cells are too few for a forecast; give at least {SIDES[0]} on each side"
        )
    tile = tuple(_side(size, side) for size, side in zip((rows, columns), data.box.tile, strict=True))
    return data.model_copy(update={"region": data.box.model_copy(update={"tile": tile})})


def _whole(data: DataConfig) -> Box:
    """Return the edges of all of a source, in whole cells of the run's if its own are not on axes."""
    if data.grid is None or (cells := source_grid(data)) is None:
        with open_sst(data) as sst:
            return Box.of(sst)
    box, width = proposed(cells.grid(data.path))[1].bounds, data.grid * data.box.coarsen
    west, south = (math.floor(edge / width) * width for edge in (box.west, box.south))
    rows = min(math.ceil((box.north - south) / width), math.floor((90 - south) / width))
    columns = min(math.ceil((box.width + box.west - west) / width), round(360 / width))
    return Box(*(round(edge, 6) for edge in (west, west + columns * width, south, south + rows * width)))


def _side(cells: int, target: int) -> int:
    """Return the tile side that divides `cells` and is nearest to `target`, or `target` itself if no side fits."""
    divisors = [side for side in (target, *SIDES) if cells % side == 0]
    return min(divisors, key=lambda side: abs(math.log(side / target)), default=target)
