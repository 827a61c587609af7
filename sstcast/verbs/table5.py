"""The command `table5`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sstcast.errors import SSTCastError
from sstcast.sources import KNOWN
from sstcast.verbs import Set


def table5(
    systems: Annotated[
        str, typer.Option(help="Which, separated by commas.", metavar="NAMES")
    ] = "mlp,tfnet,linear-transformer,mpnn,mpnn-vn",
    horizons: Annotated[str, typer.Option(help="Days ahead, separated by commas.", metavar="DAYS")] = "28,14,7",
    seeds: Annotated[str, typer.Option(help="For instance 0..2, or 0.")] = "0..2",
    region: Annotated[str, typer.Option(help="A name in regions.yaml.")] = "pacific",
    source: Annotated[str, typer.Option(help=f"Where missing days are fetched from: {KNOWN}.")] = "aws",
    base: Annotated[
        Literal["none", "persistence", "linear"], typer.Option(help="What networks add to; none as published.")
    ] = "none",
    presets: Annotated[
        Path, typer.Option(help="The systems' YAMLs; configs/models has small ones.", metavar="FOLDER")
    ] = Path("configs/models/paper"),
    set_: Set = None,
    out: Annotated[Path, typer.Option(help="The folder of its runs.", metavar="FOLDER")] = Path("runs/table5"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it will need.")] = False,
) -> None:
    """Repeat Table 5 of Cai et al. (2023): train five systems for three horizons; compare with the paper."""
    from sstcast.pages.table5 import needs_lines, table5_sheets
    from sstcast.pages.text import open_console, print_sheet
    from sstcast.papers.table5 import Table5, needs, table5
    from sstcast.validation import parse_seeds

    try:
        days = [int(text) for text in horizons.split(",")]
    except ValueError:
        raise SSTCastError(f"--horizons {horizons}: give days separated by commas, for instance 28,14,7") from None
    names = [name.strip() for name in systems.split(",")]
    table = Table5(out, names, days, parse_seeds(seeds), region, base, source, presets, set_ or [])
    if dry_run:
        print("\n".join(needs_lines(needs(table))))
        return
    found, new = table5(table)
    console = open_console()
    for sheet in table5_sheets(found, days):
        print_sheet(console, sheet)
    print(f"{out / 'table5.json'}: {'written' if new else 'nothing to do'}")
