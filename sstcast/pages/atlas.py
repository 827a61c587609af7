"""The command `map`: draws the maps of an evaluated run to files."""

from collections.abc import Callable
from pathlib import Path

from sstcast.errors import SSTCastError
from sstcast.files import alone
from sstcast.pages.figures import FIGURES
from sstcast.pages.images import read_stamp, write_png
from sstcast.pages.projection import DEFAULT_PROJECTION
from sstcast.pages.results import Results
from sstcast.runs import Run


def draw_run(
    run: Run,
    projection: str = DEFAULT_PROJECTION,
    region: str | None = None,
    say: Callable[[str], object] = print,
) -> list[Path]:
    """Draw every map in `figures.FIGURES` to `maps/NAME.png` in the run's folder; `say` gets a line per file.

    Existing maps of the same checkpoint with the same settings are kept.

    Raises SSTCastError if the run has not been evaluated, cartopy has no such projection, or the run does not
    cover any part of `region`.
    """
    if not run.forecasts.exists():
        raise SSTCastError(f"{run.forecasts}: no forecasts yet; run `sstcast evaluate {run.folder}` first")
    with alone(run.forecasts):
        results = Results(run, region)
        maps = {run.maps / f"{figure.name}.png": figure for figure in FIGURES if figure.is_map}
        stamp = f"{results.stamp}, {projection}, {region or 'whole region'}"
        if all(read_stamp(file) == stamp for file in maps):
            say(f"{run.maps}: nothing to do")
            return list(maps)
        period = "-".join(sorted({day[:4] for day in results.metrics["test"]}))
        for file, figure in maps.items():
            title = f"{figure.title} of {run.folder.name}, {period}"
            (picture,) = figure.draw(results, title=title, credit=results.credit, projection=projection)
            write_png(picture.figure, file, stamp)
            say(str(file))
        return list(maps)
