"""The command `map`: draws the maps of an evaluated run to files."""

from collections.abc import Callable
from pathlib import Path

from sstcast.artefacts import is_made_of, locked
from sstcast.errors import SSTCastError
from sstcast.pages.figures import FIGURES
from sstcast.pages.images import write_png
from sstcast.pages.projection import DEFAULT_PROJECTION
from sstcast.pages.results import Results
from sstcast.pages.scored import FileResults
from sstcast.runs import Run
from sstcast.scores.saved import Scored

Say = Callable[[str], object]


def draw_run(
    run: Run,
    projection: str = DEFAULT_PROJECTION,
    region: str | None = None,
    say: Say = print,
) -> list[Path]:
    """Draw every map in `figures.FIGURES` to `maps/NAME.png` in the run's folder; `say` gets a line per file.

    Existing maps of the same checkpoint with the same settings are kept.

    Raises SSTCastError if the run has not been evaluated, cartopy has no such projection, or the run does not
    cover any part of `region`.
    """
    if not run.forecasts.exists():
        raise SSTCastError(f"{run.forecasts}: no forecasts yet; run `sstcast evaluate {run.folder}` first")
    with locked(run.forecasts):
        return _draw(Results(run, region), run.maps, run.folder.name, projection, say)


def draw_scored(
    scored: Scored, projection: str = DEFAULT_PROJECTION, region: str | None = None, say: Say = print
) -> list[Path]:
    """Draw the same maps of forecasts that `sstcast score` has scored, to `maps/` in the folder of their scores.

    Raises SSTCastError as `draw_run` does, and if the file with the forecasts has changed.
    """
    with locked(scored.folder):
        results = FileResults(scored, region)
        return _draw(results, scored.folder / "maps", results.path.name, projection, say)


def _draw(results: Results, folder: Path, name: str, projection: str, say: Say) -> list[Path]:
    maps = {folder / f"{figure.name}.png": figure for figure in FIGURES if figure.is_map}
    recipe = results.recipe | {"projection": projection, "region": results.region}
    if all(is_made_of(file, recipe) for file in maps):
        say(f"{folder}: nothing to do")
        return list(maps)
    period = "-".join(sorted({day[:4] for day in results.metrics["test"]}))
    for file, figure in maps.items():
        title = f"{figure.title} of {name}, {period}"
        (picture,) = figure.draw(results, title=title, credit=results.credit, projection=projection)
        write_png(picture.figure, file, recipe)
        say(str(file))
    return list(maps)
