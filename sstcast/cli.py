"""The command line: runs a command, and turns any error into an exit code and one line on stderr."""

import io
import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from sstcast import __version__
from sstcast.artefacts import FIRST_PROCESS, FULL, is_full
from sstcast.errors import Interrupted, SSTCastError, in_short, printable, shorten
from sstcast.memory import keep_memory
from sstcast.verbs import app
from sstcast.workers import choose_threads

MENDABLE, BUG, INTERRUPTED = 2, 70, 130
LONGEST = 2000  # characters of a line
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


def main() -> None:
    """Run `sstcast`; print one line on stderr for any error, and exit with the code that `explain` returns."""
    debug = "--debug" in sys.argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a terminal may lack °, and a path may not be valid text
    try:
        code = _run([argument for argument in sys.argv[1:] if argument != "--debug"])
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        code, line = explain(error)
        if line and FIRST_PROCESS:
            print(f"sstcast: {line}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # nobody reads it any more; keep Python from reporting that at exit
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code for an error and the line to print; the line is empty if there is nothing to print."""
    code, text = _explain(error)
    return code, shorten(printable(" ".join(text.split())), LONGEST)


def _explain(error: BaseException) -> tuple[int, str]:
    if usage := getattr(error, "format_message", None):  # wrong arguments, in Typer's own words
        text = usage()
        return MENDABLE, f"{text}; see sstcast --help" if text else ""  # without arguments, help has been printed
    if isinstance(error, SSTCastError):
        return MENDABLE, str(error)
    if isinstance(error, Interrupted):
        # Fabric kills the first process at once when another process fails.
        return 128 + error.signal if FIRST_PROCESS else 0, "interrupted and saved; re-run the command to resume"
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted; re-run the command to do the rest"
    if isinstance(error, BrokenPipeError):  # the reader of the output has closed it, as `| head` does
        return 1, ""
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename is not None else ""
        if is_full(error):
            return (
                MENDABLE,
                f"{named}{FULL if named else 'no space left on a disk; free some and re-run the command'}",
            )
        return MENDABLE, named + in_short(error)
    no_memory = isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)
    if isinstance(error, MemoryError) or no_memory:  # the second of PyTorch
        return MENDABLE, (
            f"not enough memory ({in_short(error)}); choose a smaller region, model or training.batch_size"
        )
    return BUG, f"{type(error).__name__}: {in_short(error)}; this is a bug: run with --debug and report it"


if __name__ == "__main__":
    main()
