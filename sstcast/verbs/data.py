"""The commands for data: `fetch`, `status`, `init` and `prepare`."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from sstcast.errors import warn
from sstcast.sources import KNOWN, find_source
from sstcast.verbs import Set

INCOMPLETE = 3


def day_option(text: str) -> Any:
    """Return a command-line option for a date."""
    return typer.Option(formats=["%Y-%m-%d"], help=text, metavar="YYYY-MM-DD")


def fetch(
    source: Annotated[str, typer.Option(help=f"{KNOWN}.")] = "aws",
    start: Annotated[datetime | None, day_option("First day; 1982-01-01 by default.")] = None,
    end: Annotated[datetime | None, day_option("Last day; by default yesterday, or the source's last.")] = None,
    region: Annotated[str | None, typer.Option(help="A name in regions.yaml, W,E,S,N or global.")] = None,
    out: Annotated[Path | None, typer.Option(help="The store to write; by default one in data/.")] = None,
    concurrency: Annotated[int, typer.Option(help="Number of parallel downloads.")] = 16,
) -> None:
    """Download missing days; exit with code 3 if some could not be downloaded."""
    from sstcast.sources.fetch import fetch
    from sstcast.sources.request import FetchRequest

    last = find_source(source).end or date.today() - timedelta(days=1)
    request = FetchRequest(
        start=start.date() if start else date(1982, 1, 1),
        end=end.date() if end else last,
        source=source,
        region=region,
        out=out,
        concurrency=concurrency,
    )
    if not fetch(request).complete:
        raise typer.Exit(INCOMPLETE)


def status(
    folder: Annotated[Path, typer.Argument(help="A store, or a folder that holds stores.")] = Path("data"),
) -> None:
    """List the days on disk: source, years, gaps, preliminary days, size."""
    from sstcast.sources.status import status

    stores = status(folder, warn)
    for store in stores:
        print("\n".join(store.lines()))
    if not stores:
        print(f"{folder}: no fetched days; run `sstcast fetch` to download some (configs/demo.yaml needs none)")


def init(
    source: Annotated[str, typer.Argument(help="A NetCDF file, a Zarr store, a folder of them, or sample.")],
    out: Annotated[Path | None, typer.Option(help="The YAML to write; by default named after the source.")] = None,
    variable: Annotated[str | None, typer.Option(help="Its name, if it is not found automatically.")] = None,
    units: Annotated[
        str | None, typer.Option(help="Its units, if the file does not state them: K, degC, ...")
    ] = None,
) -> None:
    """Examine a source of temperatures and write a configuration that trains on it."""
    from sstcast.ocean.starting import start

    print("\n".join(start(source, out, variable, units)))


def prepare(
    config: Annotated[Path, typer.Argument(help="The run's YAML, for instance configs/demo.yaml.")],
    set_: Set = None,
    scheduler: Annotated[
        str | None, typer.Option(help="A dask cluster that sees the same files, for instance tcp://host:8786.")
    ] = None,
) -> None:
    """Crop the temperatures to a region; write a cube in degC and its standardised anomalies."""
    from sstcast.config import load_config
    from sstcast.ocean.prepare import prepare_all
    from sstcast.workers import cluster

    oceans = load_config(config, set_).oceans
    with cluster(scheduler):
        for prepared in prepare_all(oceans):
            if not prepared.written:
                print(f"{prepared.cube.parent}: nothing to do")
