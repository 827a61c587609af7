"""The command line: a verb parses its arguments, calls one function of a room, and prints.

Rooms are imported inside the verbs, so that `--help` answers at once.
"""

import os
import sys
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from sstcast import __version__
from sstcast.errors import SSTCastError

app = typer.Typer(
    help="Forecast sea surface temperature with graph networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Config = Annotated[Path, typer.Argument(help="The run's YAML, for instance configs/demo.yaml.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key; repeatable.")]
Runs = Annotated[list[Path], typer.Argument(help="Run folders, for instance runs/demo.", metavar="RUN...")]
OneRun = Annotated[Path, typer.Argument(help="A run folder, for instance runs/demo.", metavar="RUN")]

INCOMPLETE = 3


def day_option(text: str) -> Any:
    """Return an option that is a date."""
    return typer.Option(formats=["%Y-%m-%d"], help=text, metavar="YYYY-MM-DD")


def main() -> None:
    """Run `sstcast`; errors a user can mend take one line on stderr and exit with 2."""
    debug = "--debug" in sys.argv
    try:
        code = app(args=[argument for argument in sys.argv[1:] if argument != "--debug"], standalone_mode=False)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # wrong arguments, in Typer's own words
        if debug or not (usage or isinstance(error, (SSTCastError, OSError))):
            raise
        message = " ".join((usage() if usage else str(error)).split())
        if message:  # without any argument the help has been printed already
            print(f"sstcast: {message}{'; see sstcast --help' if usage else ''}", file=sys.stderr)
        code = 2
    sys.exit(code)


def show_version(wanted: bool) -> None:
    """Print the version and leave, if so wanted."""
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=show_version)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Forecast sea surface temperature with graph networks."""


@app.command()
def fetch(
    source: Annotated[
        str, typer.Option(help="aws, ncei, psl, erddap, sample, simulator, a URL or a folder.")
    ] = "aws",
    start: Annotated[datetime | None, day_option("First day; 1982-01-01 by default.")] = None,
    end: Annotated[datetime | None, day_option("Last day; by default yesterday, or the sample's last.")] = None,
    region: Annotated[str | None, typer.Option(help="A name in regions.yaml, W,E,S,N or global.")] = None,
    out: Annotated[Path | None, typer.Option(help="The store to write; by default one in data/.")] = None,
    keep_raw: Annotated[bool, typer.Option("--keep-raw", help="Keep the files as downloaded.")] = False,
    concurrency: Annotated[int, typer.Option(help="Downloads at once.")] = 16,
    seed: Annotated[int, typer.Option(help="Which ocean the simulator makes.")] = 0,
) -> None:
    """Get the days that are missing; exit with 3 if some could not be had."""
    from sstcast.ocean.fetch import fetch
    from sstcast.ocean.request import FetchRequest

    last = date(2016, 12, 31) if source == "sample" else date.today() - timedelta(days=1)
    request = FetchRequest(
        start=start.date() if start else date(1982, 1, 1),
        end=end.date() if end else last,
        source=source,
        region=region,
        out=out,
        keep_raw=keep_raw,
        concurrency=concurrency,
        seed=seed,
    )
    if not fetch(request).complete:
        raise typer.Exit(INCOMPLETE)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="A store, or a folder that holds stores.")] = Path("data"),
) -> None:
    """Say which days are on disk: source, years, gaps, preliminary days, size."""
    from sstcast.ocean.status import status

    for store in status(folder):
        print("\n".join(store.lines()))


@app.command()
def prepare(
    config: Config,
    set_: Set = None,
    scheduler: Annotated[
        str | None, typer.Option(help="A dask cluster that sees the same files, for instance tcp://host:8786.")
    ] = None,
) -> None:
    """Cut a region out of the temperatures: one cube in degC and its standardised anomalies."""
    from sstcast.config import load_config
    from sstcast.ocean.cluster import cluster
    from sstcast.ocean.prepare import prepare

    with cluster(scheduler):
        prepare(load_config(config, set_).data)


@app.command()
def models() -> None:
    """List the models that `model.name` may be."""
    from sstcast.models import MODELS

    for name, entry in MODELS.items():
        print(f"{name:20}{entry.about}")


@app.command()
def train(config: Config, set_: Set = None) -> None:
    """Fit a model; continue if the run was interrupted."""
    from sstcast.config import load_config
    from sstcast.ocean.prepare import Prepared
    from sstcast.ocean.windows import cut_windows
    from sstcast.training.interrupt import Interrupted
    from sstcast.training.train import train

    run_config = load_config(config, set_)
    _, anomalies = Prepared.of(run_config.data).open()
    windows = {split: cut_windows(anomalies, run_config.data, split) for split in ("train", "validation")}
    try:
        run, trained = train(run_config, windows)
    except Interrupted as stop:
        print(f"{run_config.folder}: interrupted and saved; the same command continues", file=sys.stderr)
        raise typer.Exit(128 + stop.signal) from None
    print(f"{run.folder}: {'trained' if trained else 'nothing to do'}; best checkpoint {run.best}")


@app.command()
def evaluate(runs: Runs) -> None:
    """Score runs on their test days beside the baselines."""
    from sstcast.evaluation.evaluate import evaluate
    from sstcast.evaluation.table import print_metrics
    from sstcast.runs import Run

    for run in [Run.open(folder) for folder in runs]:
        metrics, new = evaluate(run)
        print_metrics(metrics, run.folder.name)
        print(f"{run.metrics}: {'written' if new else 'nothing to do'}")


@app.command("map")
def map_(runs: Runs) -> None:
    """Draw where the errors are, and one forecast beside what came true."""
    from sstcast.evaluation.atlas import draw_run
    from sstcast.runs import Run

    for run in [Run.open(folder) for folder in runs]:
        draw_run(run)


@app.command()
def report(run: OneRun) -> None:
    """Put scores, maps and configuration on one page."""
    from sstcast.evaluation.evaluate import evaluate
    from sstcast.evaluation.report import write_report
    from sstcast.evaluation.table import print_metrics
    from sstcast.runs import Run

    opened = Run.open(run)
    page = write_report(opened)
    print_metrics(evaluate(opened)[0], run.name)
    print(f"maps:   {opened.maps}{os.sep}\nreport: {page}")


if __name__ == "__main__":
    main()
