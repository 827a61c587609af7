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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sstcast
from sstcast._version import __version__
from sstcast.dask_schedulers import choose_threads
from sstcast.errors import LESS_MEMORY, Interrupted, SSTCastError, in_short, lacks_memory, printable, shorten
from sstcast.log import LOG, show
from sstcast.options import METAVARS, MIN_OPTION_VALUES, TYPES, Command
from sstcast.sources import KNOWN
from sstcast.stopping import Terminated, ending_at_sigterm
from sstcast.storage.artefacts import DISK_FULL, is_full
from sstcast.storage.memory import keep_memory
from sstcast.storage.paths import expand_user
from sstcast.workers import FIRST_PROCESS

if TYPE_CHECKING:
    from sstcast.api.arguments import Result
    from sstcast.api.heatwaves import Events
    from sstcast.reading.raw import RawContents
    from sstcast.reports.update import Update
    from sstcast.runs import Run
    from sstcast.sources.fetch import FetchReport

LOG_LEVELS = {"--quiet": logging.WARNING, "--verbose": logging.DEBUG}
USER_ERROR, INCOMPLETE, BUG, INTERRUPTED, TERMINATED = 2, 3, 70, 130, 143
MAX_MESSAGE_CHARS = 2000  # characters of an error message
TABLES = inspect.Parameter(
    "tables",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--tables", help="Also print all tables of scores.")],
)
Arguments = dict[str, Any]  # the arguments of a call
Printer = Callable[[Any, Arguments], None]


app = typer.Typer(
    help="Forecast sea surface temperature with graph networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run `sstcast`. Print one line on stderr for any error, and exit with the code that `explain` returns."""
    debug = "--debug" in sys.argv
    LOG.setLevel(next((level for option, level in LOG_LEVELS.items() if option in sys.argv), logging.INFO))
    for name in ("stdout", "stderr"):  # None if the caller has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # the terminal may be unable to show ° or the bytes of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with ending_at_sigterm():
            code = _run([argument for argument in sys.argv[1:] if argument not in ("--debug", *LOG_LEVELS)])
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if "rich" in sys.modules:
            from sstcast.progress import stop_bars

            stop_bars()
        if debug:
            raise
        code, text = explain(error)
        if not sys.argv[1:]:
            _next("train configs/demo.yaml, or, for your own data, sstcast init FILE")
        if text and FIRST_PROCESS:
            print(f"sstcast: {shorten(printable(' '.join(text.split())), MAX_MESSAGE_CHARS)}", file=sys.stderr)
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


def show_version(is_set: bool) -> None:
    """Print the version and exit, if `is_set`."""
    if is_set:
        show(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=show_version)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only results and warnings.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print what is read and chosen.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print tracebacks.")] = False,
) -> None:
    """Forecast sea surface temperature with graph networks."""


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code for an error and the text to print, which may be empty."""
    if usage := getattr(error, "format_message", None):  # wrong arguments, in Typer's own words
        text, context = usage(), getattr(error, "ctx", None)  # the text is empty if Typer has printed the help
        command = context.command_path if context else "sstcast"
        if "unexpected extra argument" in text and context and context.params.get("places"):
            return USER_ERROR, f"{text.rstrip('.')}; repeat --places before each file"
        return USER_ERROR, text and f"{text.rstrip('.')}; see {command} --help"
    if isinstance(error, SSTCastError):
        return USER_ERROR, str(error)
    if isinstance(error, Interrupted):
        # The other processes exit with 0, because Fabric kills the first process as soon as another one fails.
        return 128 + error.signal if FIRST_PROCESS else 0, "interrupted and saved; re-run the command to resume"
    if isinstance(error, KeyboardInterrupt):
        code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        return code, "interrupted; re-run the command to finish"
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as `| head` does
        return 1, ""
    if isinstance(error, OSError):
        prefix = f"{error.filename}: " if error.filename is not None else ""
        return USER_ERROR, prefix + (DISK_FULL if is_full(error) else in_short(error))
    if lacks_memory(error):
        return USER_ERROR, f"not enough memory ({in_short(error)}); {LESS_MEMORY}"
    return BUG, f"{type(error).__name__}: {in_short(error)}; this is a bug: run with --debug and report it"


def verb(
    name: str,
    heading: str,
    argument: str = "",
    several: bool = False,
    has_tables: bool = False,
    tell: Callable[[Any], None] | None = None,
) -> Callable[[Printer], Printer]:
    """Turn the function of `sstcast` called `name` into a command. Its docstring begins with the command's help.

    The decorated function prints the result, from the result and the arguments that the user gave. `argument`
    names the positional argument. With `several`, the user may give it several times, and the function is called
    for each. The option `--tables` of commands that have one is an argument of the decorated function alone, and
    `tell` one of the function of `sstcast`.
    """

    def register(show: Printer) -> Printer:
        function = getattr(sstcast, name)

        def command(**arguments: Any) -> None:
            arguments = {key: value for key, value in arguments.items() if value is not None}
            printed = {"tables": arguments.pop("tables")} if has_tables else {}
            told = {} if tell is None else {"tell": tell}
            for call in (
                [arguments | {argument: item} for item in arguments[argument]]
                if argument and several
                else [arguments]
            ):
                show(function(**call, **told), call | printed)

        parameters = [*_parameters(function, argument, several), *([TABLES] if has_tables else [])]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__doc__ = (inspect.getdoc(function) or "").partition("\n\n")[0]
        app.command(name, cls=Command, rich_help_panel=heading)(command)
        return show

    return register


def _parameters(function: Callable[..., Any], argument: str, several: bool) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a command as Typer reads them."""
    texts = _explained(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.annotation.startswith(("xr.", "Mapping[", "Callable[")):  # only Python has these
            continue
        is_list = parameter.annotation.startswith("Sequence[") or (several and name == argument)
        type_name = parameter.annotation.removeprefix("Sequence[").split(" | ")[0].rstrip("]")
        kind: Any = TYPES.get(type_name, str)
        default = None if parameter.default == () else parameter.default
        settings: dict[str, Any] = {"help": texts[name]}
        if kind is not bool:
            settings["metavar"] = METAVARS.get(name, name.upper())
        if type_name == "dt.date":
            kind, settings = date, settings | {"parser": _day}
        if name in MIN_OPTION_VALUES:
            settings["min"] = MIN_OPTION_VALUES[name]
        if name == argument:
            declaration = typer.Argument(**settings)
        else:
            declaration = typer.Option(
                "--set" if name == "overrides" else f"--{name.replace('_', '-')}", **settings
            )
        if is_list:
            kind = list[kind]
        kind = Annotated[kind | None if default is None else kind, declaration]
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _explained(function: Callable[..., Any]) -> dict[str, str]:
    """Return the help of a function's arguments from its docstring."""
    texts = {}
    listed = re.split(r"\n\n", (inspect.getdoc(function) or "").partition("Args:\n")[2])[0]
    for name, text in re.findall(r"^    (\w+): (.+(?:\n     .+)*)", listed, re.MULTILINE):
        words = re.sub(r"; in Python also [^.;]*", "", " ".join(text.split()))
        texts[name] = (words[0].upper() + words[1:]).replace("`", "")
    if function in (sstcast.fetch, sstcast.table5):
        texts["source"] = f"{KNOWN}."
    return texts


def _day(text: str) -> date:
    return datetime.strptime(text, "%Y-%m-%d").date()


def _next(command: str) -> None:
    """Name the next command on standard error, if a person reads it in a terminal."""
    if sys.stderr.isatty() and FIRST_PROCESS:
        print(f"next: sstcast {printable(command)}", file=sys.stderr)


def _file(result: Result[Any] | Events, _: object = None) -> None:
    show(f"{result.path}: {'written' if result.new else 'nothing to do'}")


def _lines(lines: list[str], _: object) -> None:
    show(*lines)


def _scores(result: Result[Any], arguments: Arguments, label: str, against: Mapping[str, str]) -> None:
    from sstcast.figures.printing import print_answer, print_scores

    print_answer(result.value, label, arguments, against)
    if arguments["tables"]:
        print_scores(result.value, label, against)
    _file(result)


@verb("fetch", "Data")
def _fetched(report: FetchReport, _: Arguments) -> None:
    if not report.complete:
        raise typer.Exit(INCOMPLETE)
    _next(f"init {report.path}")


@verb("status", "Data", "folder")
def _stores(stores: list[RawContents], arguments: Arguments) -> None:
    show(*(line for store in stores for line in store.lines()))
    if not stores:
        hint = "run `sstcast fetch` to download some (configs/demo.yaml needs none)"
        show(f"{arguments['folder']}: no fetched days; {hint}")


@verb("heatwaves", "Data", "data")
def _events(result: Events, arguments: Arguments) -> None:
    from sstcast.extremes.events_told import lines_of_events

    words = {"above": "warm period", "below": "cold period"}
    usual = "cold spell" if arguments["cold"] else "heatwave"
    show(*lines_of_events(result.value, next((word for key, word in words.items() if key in arguments), usual)))
    _file(result)


verb("init", "Data", "source")(_lines)


@verb("prepare", "Data", "config")
def _prepared(_: object, arguments: Arguments) -> None:
    _next(f"train {arguments['config']}")


@app.command(rich_help_panel="Data")
def doctor() -> None:
    """Show versions, devices, threads and free disk space, and list missing packages by task."""
    from sstcast.doctor import examine

    for line in examine():  # which ends in an error if a package is missing
        show(line)


@app.command(rich_help_panel="Train")
def models() -> None:
    """List the models that `model.name` may select, and the local layers of `mpnn` and `gps`."""
    from sstcast.models.factory import model_lines

    show(*model_lines())


@verb("train", "Train", "config")
def _trained(run: Run, _: Arguments) -> None:
    _next(f"evaluate {run.folder}")


@verb("hindcast", "Train", "configs", has_tables=True)
def _hindcast(result: Result[dict[str, Any]], arguments: Arguments) -> None:
    _scores(result, arguments, result.path.parent.name, {})


@verb("combine", "Train", "runs")
def _weights(run: Run, _: Arguments) -> None:
    from sstcast.figures.printing import print_sheets
    from sstcast.figures.weights import weights

    print_sheets([weights(run)])


@app.command(rich_help_panel="Train")
def runs(folder: Annotated[Path, typer.Argument(help="A folder of runs.")] = Path("runs")) -> None:
    """List runs with their model, progress, best validation score and time."""
    from sstcast.training.run_list import list_runs

    list_runs(folder)


@verb("forecast", "Forecast", "run")
def _forecast(result: Result[Any], _: Arguments) -> None:
    from sstcast.forecasting.places_told import print_places
    from sstcast.forecasting.why import print_why

    _file(result)
    print_places(result.value, result.path)
    print_why(result.value)
    _next(f"page {result.path}")


verb("page", "Forecast", "forecast")(_file)


def _tell_update(update: Update) -> None:
    show(update.line, *update.lines)
    sys.stdout.flush()  # before it counts as told


@verb("update", "Forecast", "run", tell=_tell_update)
def _updated(update: Update, _: Arguments) -> None:
    raise typer.Exit(update.code)


@verb("evaluate", "Score", "run", several=True, has_tables=True)
def _evaluated(result: Result[dict[str, Any]], arguments: Arguments) -> None:
    from sstcast.runs import Run
    from sstcast.scores.evaluate import labels

    _scores(result, arguments, *labels(Run(result.path.parent), str(expand_user(arguments["against"]))))
    _next(f"report {result.path.parent}")


@verb("score", "Score", "file", has_tables=True)
def _scored(result: Result[dict[str, Any]], arguments: Arguments) -> None:
    from sstcast.scores.evaluate import labels_of_file

    against = [str(expand_user(name)) for name in arguments.get("against", ())]
    _scores(result, arguments, *labels_of_file(result.value, against))


@verb("leaderboard", "Score", "folder")
def _ranks(result: Result[Any], _: Arguments) -> None:
    from sstcast.reports.leaderboard import print_leaderboard

    print_leaderboard(*result.value)
    show(result.path, result.path.with_suffix(".html"))


verb("map", "Score", "run", several=True)(lambda *_: None)  # the function itself has told each step
verb("report", "Score", "run")(_file)
verb("datasets", "Papers")(_lines)


@verb("benchmark", "Papers", "dataset")
def _benchmarked(results: list[dict[str, Any]], arguments: Arguments) -> None:
    from sstcast.api.arguments import names_in

    if len({result["model"] for result in results}) < len(names_in(arguments["model"])):
        raise typer.Exit(INCOMPLETE)


@verb("table5", "Papers")
def _table5(result: Result[Any], arguments: Arguments) -> None:
    if arguments["dry_run"]:
        return
    from sstcast.figures.printing import print_sheets
    from sstcast.reports.table5 import table5_sheets

    print_sheets(table5_sheets(result.value, [int(day) for day in arguments["horizons"].split(",")]))
    _file(result)


@verb("table", "Papers", "name")
def _table(result: Result[Any], arguments: Arguments) -> None:
    if arguments.get("name") and not arguments["dry_run"] and any(cell["left"] for cell in result.value):
        raise typer.Exit(INCOMPLETE)


if __name__ == "__main__":
    main()
