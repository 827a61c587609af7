"""A run on an ocean it was not trained on: its weights, and the climatology and scale of that ocean's own days."""

import re
from collections.abc import Callable, Iterator, Sequence

from sstcast.config import DataConfig, RunConfig, Splits
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic
from sstcast.forecasting.predictor import region_name
from sstcast.models import home
from sstcast.models.base import Home
from sstcast.ocean.identity import Record
from sstcast.ocean.prepare import check_splits, prepare
from sstcast.ocean.prepared import Prepared, source_name
from sstcast.ocean.reading import open_region, source_path
from sstcast.plain_yaml import save_config
from sstcast.region import Region, parse_box
from sstcast.runs import ELSEWHERE, Run, provenance, write_json
from sstcast.validation import validate

LONGEST_NAME = 100  # of a run


def elsewhere(run: Run, region: str | None = None, source: str | None = None) -> DataConfig:
    """Return a run's data for another region, another source, or both.

    A box `W,E,S,N` is averaged and cut into tiles as the run's is. Another source is read by its own variable and
    units, and the splits are as much of the run's as it has days of.

    Raises SSTCastError if there is no such region or source, the source has too few of the days, or the run's
    model cannot leave its shape of tile.
    """
    data = run.config.data
    place: Region | str = data.region if region is None else region
    if region is not None and "," in region:
        box = parse_box(region)
        edges = {"lon": (box.west, box.east), "lat": (box.south, box.north)}
        place = data.box.model_copy(update=edges | {"skip": (), "land_tiles": "keep"})
    other = data.model_copy(update={"region": place})
    for name, at_home in _homes(run):
        if at_home == "region" and other.box != data.box:
            raise SSTCastError(
                f"--region {region}: model {name} knows the cells of its own region; choose another"
            )
        if at_home == "tile" and other.box.tile != data.box.tile:
            shapes = " x ".join(map(str, data.box.tile)), " x ".join(map(str, other.box.tile))
            raise SSTCastError(
                f"--region {region}: model {name} knows tiles of {shapes[0]} only, the region's are {shapes[1]}; "
                "choose a graph model"
            )
    return other if source is None else _of_source(other, source, run.config.also)


def run_elsewhere(run: Run, source: str | None, region: str | None, say: Callable[[str], object] = print) -> Run:
    """Make, or bring up to date, the folder `RUN/elsewhere-NAME` for a run on another ocean, which is prepared.

    Its configuration holds the other ocean as `data`, and the run's own as `trained_on`. `say` gets a line for
    what is prepared. Raises SSTCastError as `elsewhere` and `prepare` do.
    """
    run = run.trained
    data = elsewhere(run, region, source)
    prepare(data, lambda line: None if line.endswith("nothing to do") else say(line))
    record = Prepared.of(data).record()
    place = re.sub(r"[^A-Za-z0-9._-]", "_", f"{source_name(data)}-{region_name(data)}")
    there = Run(run.folder / f"{ELSEWHERE}{place}"[:LONGEST_NAME])
    config = run.config.model_copy(
        update={"name": there.folder.name, "runs": run.folder, "data": data, "trained_on": run.config.data}
    )
    with alone(there.folder):
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


def _of_source(data: DataConfig, source: str, known: Sequence[DataConfig]) -> DataConfig:
    """Return the data of another source, the splits cut to its days."""
    where = f"--source {source}"
    raw = data.model_dump() | {"source": source, "variable": None, "units": None}
    for ocean in known:  # one that the run was trained on is read as it was then
        if source_path(ocean.source) == source_path(source):
            raw |= {"variable": ocean.variable, "units": ocean.units, "gaps": ocean.gaps}
    other = validate(DataConfig, raw, where)
    if not source or not source_path(other.source).exists():
        raise SSTCastError(f"{where}: no such file or folder")
    time = open_region(other)["time"].values
    first, last = (time[i].astype("datetime64[D]").item() for i in (0, -1))
    spans = {}
    for name, (start, stop) in data.splits.given.items():
        spans[name] = max(start, first), min(stop, last)
        if spans[name][0] > spans[name][1]:
            raise SSTCastError(
                f"{where}: holds {first}..{last}, no day of the run's data.splits.{name}, {start}..{stop}; "
                "choose another"
            )
    other = other.model_copy(update={"splits": validate(Splits, spans, where)})
    try:
        check_splits(other, time)
    except SSTCastError as error:
        raise SSTCastError(f"{where}: holds {first}..{last}, too little of the run's {error}") from None
    return other


def _homes(run: Run) -> Iterator[tuple[str, Home]]:
    """Yield the models of a run, or of the parts of a combination, and where they are at home."""
    run = run.trained
    for part in (parts := run.open_parts()):
        yield from _homes(part)
    if not parts:
        model = run.config.model
        yield model.name, home(model.name, model.options.get("base"))
