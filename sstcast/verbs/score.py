"""The command `score`."""

from pathlib import Path
from typing import Annotated

import typer


def score(
    file: Annotated[
        Path, typer.Argument(help="A NetCDF file, a folder of them, or a Zarr store.", metavar="FILE")
    ],
    truth: Annotated[
        str | None, typer.Option(help="The observations: a file, a folder, a store, sample, or a run's YAML.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="A reference: a run's folder, or a baseline; repeatable.", metavar="RUN|BASELINE"),
    ] = None,
    region: Annotated[str | None, typer.Option(help="Score a region: a name or W,E,S,N.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the scores; FILE-scores by default.", metavar="FOLDER")
    ] = None,
    variable: Annotated[str | None, typer.Option(help="The variable, if it is not found automatically.")] = None,
    units: Annotated[str | None, typer.Option(help="Its units, if the file does not state them: K, degC.")] = None,
    leads: Annotated[int | None, typer.Option(min=1, help="Score the first days only.", metavar="DAYS")] = None,
) -> None:
    """Score anyone's forecasts, in a file, beside the baselines and your runs."""
    from sstcast.pages.text import open_console, print_metrics, print_sheet, versus
    from sstcast.runs import Run
    from sstcast.scores.evaluate import reference
    from sstcast.scores.score import score
    from sstcast.scores.tables import DEGREES

    others = [reference(name) for name in against or ["multiscale"]]
    runs = [other for other in others if isinstance(other, Run)]
    metrics, scored, new = score(file, truth, runs, region, out, variable, units, leads)
    names = [metrics["references"][str(other.folder)] if isinstance(other, Run) else other for other in others]
    print_metrics(metrics, Path(metrics["file"]).name, names[0])
    for name in names[1:]:
        print_sheet(open_console(), versus(metrics["skill"][DEGREES][name], name))
    print(f"{scored.metrics}: {'written' if new else 'nothing to do'}")
