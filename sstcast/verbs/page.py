"""The command `page`."""

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
