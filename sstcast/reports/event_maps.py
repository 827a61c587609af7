"""The command `map` of a file of events: draws maps of a record's years beside it."""

from pathlib import Path

from sstcast._version import __version__
from sstcast.errors import SSTCastError
from sstcast.figures.projection import DEFAULT_PROJECTION
from sstcast.figures.record_events import AGAIN, DRAWN, RecordMaps
from sstcast.log import LOG
from sstcast.progress import tracked
from sstcast.reports.images import write_png
from sstcast.storage.artefacts import check_own, fingerprint, is_up_to_date, locked, read_recipe
from sstcast.storage.stores import open_netcdf

NAMES = ("days", "category", "trend")  # of the maps


def is_file(path: Path) -> bool:
    """Return whether a path names a file, or a store, and no folder of results."""
    return path.is_file() or path.suffix == ".zarr" or (path.suffix in (".nc", ".csv") and not path.is_dir())


def draw_event_maps(file: Path, projection: str = DEFAULT_PROJECTION, region: str | None = None) -> list[Path]:
    """Draw the maps of a record's events beside the file, as `NAME-days.png`, `-category.png` and `-trend.png`.

    Nothing is drawn if these exist for the same file, region and projection. Logs each file, and what is left out.
    Maps that sstcast drew of earlier events of this name, and that these do not have, go.

    Raises SSTCastError if the file does not hold a record's events, or a picture of this name is not sstcast's.
    """
    if file.suffix != ".nc":
        raise SSTCastError(f"{file}: {DRAWN}")
    pictures = {name: file.with_name(f"{file.stem}-{name}.png") for name in NAMES}
    recipe = {"sstcast": __version__, "events": fingerprint(file), "projection": projection, "region": region}
    with open_netcdf(file, AGAIN) as events, locked(pictures["days"]):
        record = RecordMaps.of(events, file)
        drawn = {drawing.name: pictures[drawing.name] for drawing in record.maps}
        for picture in drawn.values():
            check_own(picture, "rename it")
        for name in pictures.keys() - drawn.keys():
            made = read_recipe(pictures[name])
            if isinstance(made, dict) and made.keys() == recipe.keys():
                pictures[name].unlink()
        for line in record.left_out:
            LOG.info(f"{file}: left out: {line}")
        if all(is_up_to_date(picture, recipe) for picture in drawn.values()):
            LOG.info(f"{file}: nothing to do")
            return list(drawn.values())
        for drawing in tracked(record.maps, "drawing the maps"):
            write_png(drawing.draw(region, record.credit, projection), drawn[drawing.name], recipe)
            LOG.info(str(drawn[drawing.name]))
    return list(drawn.values())
