"""The commands that show results: `page`, `report`, `score` and `update`."""

from pathlib import Path
from typing import Annotated

import typer


def page(
    forecast: Annotated[
        Path,
        typer.Argument(help="A run, whose newest forecast is shown, or a .nc or .zarr.", metavar="RUN|FORECAST"),
    ],
    out: Annotated[Path | None, typer.Option(help="The .html to write; by default beside the forecast.")] = None,
    region: Annotated[str | None, typer.Option(help="Show a part: a name in regions.yaml or W,E,S,N.")] = None,
    max_size: Annotated[float, typer.Option(min=0, help="Largest page to write, in MB.", metavar="MB")] = 20,
) -> None:
    """Write a forecast to one page to click on: a map of every day, and the days of every point."""
    from sstcast.pages.page import write_forecast_page

    path, new = write_forecast_page(forecast, out, region, max_size)
    print(f"{path}: {'written' if new else 'nothing to do'}")


def report(
    run: Annotated[
        Path, typer.Argument(help="A run, a hindcast or scores, for instance runs/demo.", metavar="RUN")
    ],
) -> None:
    """Write all results of a run, of a hindcast, or of forecasts scored, to one page."""
    from sstcast.hindcasts.files import Hindcast
    from sstcast.pages.report import write_report, write_scored_report
    from sstcast.runs import Run
    from sstcast.scores.saved import Scored

    if Hindcast(run).csv.exists():
        from sstcast.pages.hindcast import write_hindcast_report  # not above: a run's report does without

        page, new = write_hindcast_report(Hindcast(run))
    elif Scored(run).exists:
        page, new = write_scored_report(Scored(run))
    else:
        page, new = write_report(Run.open(run))
    print(f"{page}: {'written' if new else 'nothing to do'}")


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
    from sstcast.names import DEGREES
    from sstcast.pages.former import of_run
    from sstcast.pages.text import open_console, print_metrics, print_sheet, versus
    from sstcast.runs import Run
    from sstcast.scores.evaluate import reference
    from sstcast.scores.score import score

    others = [reference(name) for name in against or ["multiscale"]]
    runs = [other for other in others if isinstance(other, Run)]
    metrics, scored, new = score(file, truth, runs, region, out, variable, units, leads)
    names = [metrics["references"][str(other.folder)] if isinstance(other, Run) else other for other in others]
    metrics = of_run(metrics)
    print_metrics(metrics, Path(metrics["file"]).name, names[0])
    for name in names[1:]:
        print_sheet(open_console(), versus(metrics["skill"][DEGREES][name], name))
    print(f"{scored.metrics}: {'written' if new else 'nothing to do'}")


def update(
    run: Annotated[Path, typer.Argument(help="A run folder, for instance runs/demo.", metavar="RUN")],
    date: Annotated[str, typer.Option(help="Last day of history, or latest.", metavar="YYYY-MM-DD")] = "latest",
    max_size: Annotated[float, typer.Option(min=0, help="Largest page to write, in MB.", metavar="MB")] = 20,
) -> None:
    """Fetch new days, forecast, write a page, verify earlier forecasts. Code 3: nothing new, 4: source down."""
    from sstcast.operations.update import update

    done = update(run, date, max_size)
    print(done.line)
    raise typer.Exit(done.code)
