"""The command `update`."""

from pathlib import Path
from typing import Annotated

import typer


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
