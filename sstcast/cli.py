"""The command line: each command parses its arguments, calls one function of a subpackage, and prints.

Subpackages are imported inside the commands, so that `--help` is fast.
"""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sstcast import __version__
from sstcast.artefacts import FIRST_PROCESS, at_home
from sstcast.ending import explain, flush
from sstcast.errors import SSTCastError
from sstcast.memory import keep_memory
from sstcast.verbs.data import fetch, init, prepare, status
from sstcast.verbs.doctor import doctor
from sstcast.verbs.graphs import benchmark, datasets
from sstcast.verbs.results import page, report, score, update
from sstcast.verbs.training import hindcast, table5, train
from sstcast.workers import choose_threads

app = typer.Typer(
    help="Forecast sea surface temperature with graph networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Runs = Annotated[list[Path], typer.Argument(help="Run folders, for instance runs/demo.", metavar="RUN...")]


def main() -> None:
    """Run `sstcast`; print one line on stderr for any error, and exit with the code that `explain` returns."""
    debug = "--debug" in sys.argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a terminal may lack °, and a path may not be valid text
    try:
        code = _run([_at_home(argument) for argument in sys.argv[1:] if argument != "--debug"])
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        code, line = explain(error)
        if line and FIRST_PROCESS:
            print(f"sstcast: {line}", file=sys.stderr)
    flush()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run a command; unlike Typer's own runner, pass on every exception unchanged."""
    keep_memory()
    command = typer.main.get_command(app)
    if "_SSTCAST_COMPLETE" in os.environ:  # a shell asks what may follow; Typer's own runner answers
        command.main(prog_name="sstcast")
    try:
        with command.make_context("sstcast", arguments) as context:
            choose_threads()
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


def _at_home(argument: str) -> str:
    """Expand `~` where a shell leaves it: in quotes, and in `--out=~/x`."""
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    return f"{option}{equals}{at_home(value)}" if value.startswith("~") else argument


def show_version(wanted: bool) -> None:
    """Print the version and exit, if `wanted`."""
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


def models() -> None:
    """List the models to choose from for `model.name`."""
    from sstcast.models import LINEAR, MODELS

    for name, entry in [*MODELS.items(), *LINEAR.items()]:
        print(f"{name:20}{entry.about}")


def runs(folder: Annotated[Path, typer.Argument(help="A folder of runs.")] = Path("runs")) -> None:
    """List runs: model, progress, best validation score, time."""
    from sstcast.training.listing import list_runs

    list_runs(folder)


def evaluate(
    runs: Runs,
    against: Annotated[
        str,
        typer.Option(help="The reference: another run's folder, or a baseline (its first word is enough)."),
    ] = "multiscale",
    source: Annotated[
        str | None, typer.Option(help="Score on another ocean: a file, a folder or a store.", metavar="FILE")
    ] = None,
    region: Annotated[str | None, typer.Option(help="Score on another region: a name or W,E,S,N.")] = None,
) -> None:
    """Score runs and the baselines on the test days; on another ocean or region, in RUN/elsewhere-NAME."""
    from sstcast.forecasting.transfer import transferred_run
    from sstcast.pages.former import of_run, skill
    from sstcast.pages.text import print_metrics
    from sstcast.runs import Run
    from sstcast.scores.evaluate import compare, evaluate, reference

    other = reference(against)
    for run in [Run.open(folder) for folder in runs]:
        if source is not None or region is not None:
            run = transferred_run(run, source, region)
        metrics, new = evaluate(run)
        comparison = compare(run, other) if isinstance(other, Run) else None
        name = other.folder.name if isinstance(other, Run) else other
        print_metrics(of_run(metrics), run.folder.name, name, skill(comparison) if comparison else None)
        print(f"{run.metrics}: {'written' if new else 'nothing to do'}")


def combine(
    runs: Runs,
    name: Annotated[str, typer.Option(help="Name of the new run; its folder is beside the first run's.")],
    equal: Annotated[bool, typer.Option("--equal", help="Give all runs the same weight.")] = False,
) -> None:
    """Average runs of one ocean, with weights fitted to their validation days, or equal ones."""
    from sstcast.pages.text import open_console, print_sheet, weights
    from sstcast.runs import Run
    from sstcast.scores.combine import combine

    if not name or Path(name).name != name:
        raise SSTCastError(f"--name {name}: give a name, not a path")
    first = runs[0] if runs[0].name else runs[0].resolve()
    run = combine([Run(folder) for folder in runs], first.parent / name, equal)
    print_sheet(open_console(), weights(run))


def leaderboard(
    folder: Annotated[Path, typer.Argument(help="A folder of runs; the table is written there.")] = Path("runs"),
) -> None:
    """Rank all evaluated runs, and show the hindcasts."""
    from sstcast.pages.hindcast import hindcast_sheets
    from sstcast.pages.leaderboard import print_leaderboard, write_leaderboard
    from sstcast.scores.leaderboard import leaderboard

    hindcasts = hindcast_sheets(folder)
    contests = leaderboard(folder, empty=bool(hindcasts))
    print_leaderboard(contests, hindcasts)
    for file in write_leaderboard(contests, folder, hindcasts):
        print(file)


def forecast(
    run: Annotated[
        Path, typer.Argument(help="A run folder, or pretrained: the run that ships with sstcast.", metavar="RUN")
    ],
    date: Annotated[str, typer.Option(help="Last day of history, or latest.", metavar="YYYY-MM-DD")] = "latest",
    out: Annotated[Path | None, typer.Option(help="A .nc or .zarr; by default a .nc in the run's folder.")] = None,
    region: Annotated[str | None, typer.Option(help="Forecast another region: a name or W,E,S,N.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Forecast another ocean: a file, a folder or a store.", metavar="FILE")
    ] = None,
    variable: Annotated[str | None, typer.Option(help="Its variable, if it is not found automatically.")] = None,
    units: Annotated[str | None, typer.Option(help="Its units, if it does not state them: K, degC.")] = None,
    gaps: Annotated[int | None, typer.Option(min=0, help="Longest gap to fill in it.", metavar="DAYS")] = None,
    members: Annotated[bool, typer.Option("--members", help="Write each member of an ensemble, too.")] = False,
) -> None:
    """Make a forecast from the latest days; download them if they are missing."""
    from sstcast.forecasting.forecast import forecast

    path, new = forecast(run, date, out, region, source, members, variable, units, gaps)
    print(f"{path}: {'written' if new else 'nothing to do'}")


def map_(
    runs: Runs,
    projection: Annotated[str, typer.Option(help="A cartopy projection, for instance Robinson.")] = "PlateCarree",
    region: Annotated[str | None, typer.Option(help="Draw a part: a name in regions.yaml or W,E,S,N.")] = None,
) -> None:
    """Draw maps of the errors, and of example forecasts beside the observed SST; of a hindcast, maps of skill."""
    from sstcast.hindcasts.files import Hindcast
    from sstcast.pages.atlas import draw_run, draw_scored
    from sstcast.pages.hindcast_figures import draw_hindcast
    from sstcast.runs import Run
    from sstcast.scores.saved import Scored

    hindcasts = [folder for folder in runs if Hindcast(folder).csv.exists()]
    if hindcasts and region is not None:
        raise SSTCastError(f"--region {region}: {hindcasts[0]} is a hindcast, mapped as a whole; leave it out")
    of_files = [folder for folder in runs if folder not in hindcasts and Scored(folder).exists]
    opened = [Run.open(folder) for folder in runs if folder not in (*hindcasts, *of_files)]
    for run in opened:
        draw_run(run, projection, region)
    for folder in of_files:
        draw_scored(Scored(folder), projection, region)
    for folder in hindcasts:
        draw_hindcast(Hindcast(folder), projection)


VERBS: dict[str, tuple[Callable[..., None], ...]] = {  # in the order of the help, under these headings
    "Data": (fetch, status, init, prepare, doctor),
    "Train": (models, train, hindcast, combine, runs),
    "Forecast": (forecast, page, update),
    "Score": (evaluate, score, leaderboard, map_, report),
    "Papers": (datasets, benchmark, table5),
}
for heading, verbs in VERBS.items():
    for verb in verbs:
        app.command(verb.__name__.rstrip("_"), rich_help_panel=heading)(verb)

if __name__ == "__main__":
    main()
