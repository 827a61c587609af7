"""Prints tables of scores in the terminal."""

from collections.abc import Sequence
from functools import cache

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sstcast.errors import printable
from sstcast.figures.sheets import sections_of
from sstcast.figures.sheets.sheet import Scores, Sheet, first_name, first_system
from sstcast.figures.tables import NOTE, VARY, added, bases, gains, ratios, summary, versus


def print_scores(metrics: Scores, label: str, against: Sequence[str] = ()) -> None:
    """Print the scores of a run, a scored file or a hindcast called `label`.

    `against` names the systems with which the first system is compared by lead. By default, it is the reference.
    """
    system, name = first_system(metrics), first_name(metrics, label)
    sections = sections_of(metrics, label)
    sheets = [
        *sections.pop("scores"),
        *(versus(metrics, name, reference) for reference in bases(metrics, against) if reference != system),
        *(ratios(metrics, label) if metrics["kind"] == "hindcast" else []),
        *(sheet for of_section in sections.values() for sheet in of_section if sheet.is_printed),
    ]
    print_sheets(
        sheets,
        f"{printable(label)}: {summary(metrics)}",
        name,
        "\n".join(filter(None, [added(metrics), *gains(metrics)])),
    )
    for note in (NOTE, VARY):
        _print_once(note)


@cache
def _print_once(note: str) -> None:
    """Print a note, unless a table of the same command had it."""
    print(note)


def print_sheets(sheets: Sequence[Sheet], heading: str = "", bold: str = "", note: str = "") -> None:
    """Print tables between a `heading` and a `note`, with the rows called `bold` in bold type.

    The tables are as wide as the terminal, or 140 columns if standard output is not a terminal.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 140
    if heading:
        console.print(heading, soft_wrap=True)
    for sheet in sheets:
        title = printable(sheet.title)
        for part in _parts_that_fit(sheet, console.width):
            table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
            table.add_column("", no_wrap=True)
            for column, width in part.items():
                table.add_column(sheet.header[column], justify="right", overflow="fold", width=width)
            for name, cells in sheet.rows:
                row = [cells[column] for column in part]
                table.add_row(printable(name), *row, style="bold" if name == bold else None)
            console.print(table)
            title = ""
    if note:
        console.print(note, soft_wrap=True)


def _parts_that_fit(sheet: Sheet, width: int) -> list[dict[int, int]]:
    """Divide a table into parts at most `width` characters wide, each with the widths of its columns by number.

    No number or header is broken, unless it is wider than the terminal. The widths are not left to Rich, which
    cuts numbers off at the right edge if the table is a little too wide for its headers.
    """
    space = width - 3 - max((len(printable(name)) for name, _ in sheet.rows), default=0)
    parts: list[dict[int, int]] = [{}]
    for column, header in enumerate(sheet.header):
        widest = max(map(len, [header, *(cells[column] for _, cells in sheet.rows)]), default=1)
        if parts[-1] and sum(2 + of for of in parts[-1].values()) + 2 + widest > space:
            parts.append({})
        parts[-1][column] = widest
    return parts
