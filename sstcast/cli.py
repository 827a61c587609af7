"""The command line: each command calls the function of the same name in `sstcast` and prints its result.

Options take their names, defaults and help from the functions and docstrings in `sstcast.api`. The commands
`models`, `runs` and `doctor` have no function. `main` turns any error into an exit code and one line on stderr.
"""

from __future__ import annotations

import inspect
import io
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sstcast
from sstcast import api
from sstcast._version import __version__
from sstcast.api.papers import TABLE5
from sstcast.errors import LESS_MEMORY, Interrupted, SSTCastError, in_short, lacks_memory, printable, shorten
from sstcast.log import LOG
from sstcast.sources import KNOWN
from sstcast.storage.artefacts import DISK_FULL, FIRST_PROCESS, at_home, is_full
from sstcast.storage.memory import keep_memory
from sstcast.workers import choose_threads

if TYPE_CHECKING:
    from sstcast.api.data import Result
    from sstcast.api.update import Update
    from sstcast.ocean.raw import RawContents
    from sstcast.runs import Run
    from sstcast.sources.fetch import FetchReport

LEVELS = {"--quiet": logging.WARNING, "--verbose": logging.DEBUG}
USER_ERROR, INCOMPLETE, BUG, INTERRUPTED = 2, 3, 70, 130
LONGEST = 2000  # characters of an error message
# The type of an option, by the first type in the argument's annotation; all other options are text.
TYPES: dict[str, Any] = {"Path": Path, "Run": Path, "RunConfig": Path, "bool": bool, "float": float, "int": int}
METAVARS = {  # the default is the argument's name in capitals
    **dict.fromkeys(("start", "end", "date"), "YYYY-MM-DD"),
    **dict.fromkeys(("gaps", "leads", "every", "horizons"), "DAYS"),
    "overrides": "KEY=VALUE",
    "years": "FIRST:LAST",
    "against": "RUN|BASELINE",
    "index": "BOX|CSV",
    "forecast": "RUN|FORECAST",
    "resume": "RUN",
    "places": "CSV|GEOJSON",
    "share": "PER CENT",
    **dict.fromkeys(("select", "datasets", "models"), "NAMES"),
    "base": "none|persistence|linear",
    "name": "PAPER:TABLE",
}
DEFAULTS = {"--samples": "100"}  # of options that may be given without a value
LEAST = {"gaps": 0, "samples": 0, "leads": 1, "max_size": 0, "fold": 1, "validation": 1, "every": 1, "jobs": 1}
Given = dict[str, Any]  # the arguments of a call
Show = Callable[[Any, Given], None]


class Command(typer.core.TyperCommand):
    """A command whose options in `DEFAULTS` may be given without a number, for which Typer has no way."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments after giving these options their values."""
        given: list[str] = []
        for argument, following in pairwise([*args, ""]):
            given.append(argument)
            if argument in DEFAULTS and not following.lstrip("-").isdecimal():
                given.append(DEFAULTS[argument])
        return super().parse_args(ctx, given)


app = typer.Typer(
    help="Forecast sea surface temperature with graph networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run `sstcast`. Print one line on stderr for any error, and exit with the code that `explain` returns."""
    debug = "--debug" in sys.argv
    LOG.setLevel(next((level for option, level in LEVELS.items() if option in sys.argv), logging.INFO))
    for name in ("stdout", "stderr"):  # None if the caller has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # the terminal may be unable to show ° or the bytes of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run([argument for argument in sys.argv[1:] if argument not in ("--debug", *LEVELS)])
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        code, text = explain(error)
        if not sys.argv[1:]:
            _next("train configs/demo.yaml, or, for your own data, sstcast init FILE")
        if text and FIRST_PROCESS:
            print(f"sstcast: {shorten(printable(' '.join(text.split())), LONGEST)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # the reader has closed the pipe; without this, Python would report it at exit
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run a command. Unlike Typer's own runner, let every exception through."""
    keep_memory()
    command = typer.main.get_command(app)
    if "_SSTCAST_COMPLETE" in os.environ:  # shell completion, which only Typer's own runner answers
        command.main(prog_name="sstcast")
    try:
        with command.make_context("sstcast", arguments) as context:
            choose_threads()
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


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
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only results and warnings.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print what is read and chosen.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Forecast sea surface temperature with graph networks."""


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code for an error and the text to print, which may be empty."""
    if usage := getattr(error, "format_message", None):  # wrong arguments, in Typer's own words
        text, context = usage(), getattr(error, "ctx", None)  # the text is empty if Typer has printed the help
        command = context.command_path if context else "sstcast"
        return USER_ERROR, text and f"{text.rstrip('.')}; see {command} --help"
    if isinstance(error, SSTCastError):
        return USER_ERROR, str(error)
    if isinstance(error, Interrupted):
        # The other processes exit with 0, because Fabric kills the first process as soon as another one fails.
        return 128 + error.signal if FIRST_PROCESS else 0, "interrupted and saved; re-run the command to resume"
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted; re-run the command to finish"
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as `| head` does
        return 1, ""
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename is not None else ""
        return USER_ERROR, named + (DISK_FULL if is_full(error) else in_short(error))
    if lacks_memory(error):
        return USER_ERROR, f"not enough memory ({in_short(error)}); {LESS_MEMORY}"
    return BUG, f"{type(error).__name__}: {in_short(error)}; this is a bug: run with --debug and report it"


def verb(name: str, heading: str, argument: str = "", several: bool = False) -> Callable[[Show], Show]:
    """Turn the function of `sstcast` called `name` into a command. Its docstring begins with the command's help.

    The decorated function prints the result, from the result and the arguments that the user gave. `argument`
    names the positional argument. With `several`, the user may give it several times, and the function is called
    for each.
    """

    def register(show: Show) -> Show:
        function = getattr(sstcast, name)

        def command(**given: Any) -> None:
            given = {key: value for key, value in given.items() if value is not None}
            for call in (
                [given | {argument: each} for each in given[argument]] if argument and several else [given]
            ):
                show(function(**call), call)

        found = list(_parameters(function, argument, several))
        command.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in found}
        command.__doc__ = (inspect.getdoc(function) or "").partition("\n\n")[0]
        app.command(name, cls=Command, rich_help_panel=heading)(command)
        return show

    return register


def _parameters(function: Callable[..., Any], argument: str, several: bool) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a command as Typer reads them."""
    texts = _explained(function)
    for name, given in inspect.signature(function).parameters.items():
        if given.annotation.startswith("xr."):  # only Python has objects
            continue
        many = given.annotation.startswith("Sequence[") or (several and name == argument)
        first = given.annotation.removeprefix("Sequence[").split(" | ")[0].rstrip("]")
        kind: Any = TYPES.get(first, str)
        default = None if given.default == () else given.default
        about: dict[str, Any] = {"help": texts[name]}
        if kind is not bool:
            about["metavar"] = METAVARS.get(name, name.upper())
        if first == "dt.date":
            kind, about = date, about | {"parser": _day}
        if name in LEAST:
            about["min"] = LEAST[name]
        if name == argument:
            made = typer.Argument(**about)
        else:
            made = typer.Option("--set" if name == "overrides" else f"--{name.replace('_', '-')}", **about)
        if many:
            kind = list[kind]
        kind = Annotated[kind | None if default is None else kind, made]
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _explained(function: Callable[..., Any]) -> dict[str, str]:
    """Return the help of a function's arguments from its docstring, and of shared ones from `sstcast.api`."""
    texts = {}
    for documented in (api, function):
        listed = re.split(r"\n\n", (inspect.getdoc(documented) or "").partition("Args:\n")[2])[0]
        for name, text in re.findall(r"^    (\w+): (.+(?:\n     .+)*)", listed, re.MULTILINE):
            words = re.sub(r"; in Python also [^.;]*", "", " ".join(text.split()))
            texts[name] = (words[0].upper() + words[1:]).replace("`", "")
    if function in (sstcast.fetch, sstcast.table5):
        texts["source"] = f"{KNOWN}."
    return texts


def _day(text: str) -> date:
    return datetime.strptime(text, "%Y-%m-%d").date()


def _name(against: str) -> str:
    from sstcast.scores.evaluate import reference

    found = reference(str(at_home(against)))
    return found if isinstance(found, str) else found.folder.name


def _next(command: str) -> None:
    """Name the next command on standard error, if a person reads it in a terminal."""
    if sys.stderr.isatty() and FIRST_PROCESS:
        print(f"next: sstcast {printable(command)}", file=sys.stderr)


def _file(result: Result[Any], _: object = None) -> None:
    print(f"{result.path}: {'written' if result.new else 'nothing to do'}")


def _lines(lines: list[str], _: object) -> None:
    print(*lines, sep="\n")


def _nothing(*_: object) -> None:
    """Print nothing more, because the function itself has told each step."""


def _scores(result: Result[dict[str, Any]], label: str, against: Sequence[str] = ()) -> None:
    from sstcast.figures.places import areas
    from sstcast.figures.tables import print_scores, print_sheets

    print_scores(result.value, label, against)
    if "places" in result.value:
        print_sheets(areas(result.value, label))
    _file(result)


@verb("fetch", "Data")
def _fetched(report: FetchReport, _: Given) -> None:
    if not report.complete:
        raise typer.Exit(INCOMPLETE)
    _next(f"init {report.path}")


@verb("status", "Data", "folder")
def _stores(stores: list[RawContents], given: Given) -> None:
    for store in stores:
        print(*store.lines(), sep="\n")
    if not stores:
        hint = "run `sstcast fetch` to download some (configs/demo.yaml needs none)"
        print(f"{given['folder']}: no fetched days; {hint}")


verb("init", "Data", "source")(_lines)


@verb("prepare", "Data", "config")
def _prepared(_: object, given: Given) -> None:
    _next(f"train {given['config']}")


@app.command(rich_help_panel="Data")
def doctor() -> None:
    """Show versions, devices, threads and free disk space, and list missing packages by task."""
    from sstcast.doctor import examine

    for line in examine():
        print(line)


@app.command(rich_help_panel="Train")
def models() -> None:
    """List the models that `model.name` may select."""
    from sstcast.models import LINEAR, MODELS

    for name, entry in [*MODELS.items(), *LINEAR.items()]:
        print(f"{name:20}{entry.about}")


@verb("train", "Train", "config")
def _trained(run: Run, _: Given) -> None:
    _next(f"evaluate {run.folder}")


@verb("hindcast", "Train", "configs")
def _hindcast(result: Result[dict[str, Any]], _: Given) -> None:
    _scores(result, result.path.parent.name)


@verb("combine", "Train", "runs")
def _weights(run: Run, _: Given) -> None:
    from sstcast.figures.tables import print_sheets, weights

    print_sheets([weights(run)])


@app.command(rich_help_panel="Train")
def runs(folder: Annotated[Path, typer.Argument(help="A folder of runs.")] = Path("runs")) -> None:
    """List runs with their model, progress, best validation score and time."""
    from sstcast.training.listing import list_runs

    list_runs(folder)


@verb("forecast", "Forecast", "run")
def _forecast(result: Result[Any], _: Given) -> None:
    _file(result)
    _next(f"page {result.path}")


verb("page", "Forecast", "forecast")(_file)


@verb("update", "Forecast", "run")
def _updated(done: Update, _: Given) -> None:
    print(done.line)
    raise typer.Exit(done.code)


@verb("evaluate", "Score", "run", several=True)
def _evaluated(result: Result[dict[str, Any]], given: Given) -> None:
    from sstcast.runs import Run

    _scores(result, Run(result.path.parent).label, [_name(given["against"])])
    _next(f"report {result.path.parent}")


@verb("score", "Score", "file")
def _scored(result: Result[dict[str, Any]], given: Given) -> None:
    named = result.value["references"]
    _scores(result, Path(result.value["file"]).name, [named.get(n) or _name(n) for n in given.get("against", ())])


@verb("leaderboard", "Score", "folder")
def _ranks(result: Result[Any], _: Given) -> None:
    from sstcast.reports.leaderboard import print_leaderboard

    print_leaderboard(*result.value)
    print(result.path, result.path.with_suffix(".html"), sep="\n")


verb("map", "Score", "run", several=True)(_nothing)
verb("report", "Score", "run")(_file)
verb("datasets", "Papers")(_lines)
verb("benchmark", "Papers", "dataset")(_nothing)


@verb("table5", "Papers")
def _table5(result: Result[Any], given: Given) -> None:
    if given["dry_run"]:
        return
    from sstcast.figures.tables import print_sheets
    from sstcast.reports.table5 import table5_sheets

    print_sheets(table5_sheets(result.value, [int(day) for day in given["horizons"].split(",")]))
    _file(result)


@verb("table", "Papers", "name")
def _table(result: Result[Any], given: Given) -> None:
    if given.get("name") == TABLE5:
        _table5(result, {"horizons": "28,14,7"} | given)
    elif given.get("name") and not given["dry_run"] and any(cell["left"] for cell in result.value):
        raise typer.Exit(INCOMPLETE)


if __name__ == "__main__":
    main()
