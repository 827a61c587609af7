"""Prints answers and tables of scores in the terminal."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sstcast.errors import printable
from sstcast.figures.answers import (
    about_the_distribution,
    added,
    answers,
    gains,
    lines_of_systems,
    squared_error,
    summary,
)
from sstcast.figures.sheets import above, areas, errors, events, points, sections_of
from sstcast.figures.sheets.sheet import Sheet, first_name, first_system
from sstcast.figures.tables import NOTE, VARY, bases, ratios, versus
from sstcast.log import show
from sstcast.scores.system_records import BASELINE, of_role
from sstcast.types import Scores

NONE: Mapping[str, str] = {}
ANSWER_WIDTH = 100  # columns
# What a command may be asked for: the key of `metrics.json` that tells of it, and its tables.
ASKED: dict[str, tuple[str, Callable[[Scores, str], list[Sheet]]]] = {
    "index": ("index", errors.by_index),
    "remove_bias": ("bias_removed", lambda metrics, label: errors.errors(metrics, label)[:1]),
    "places": ("places", areas.areas),
    "observations": ("points", points.points),
    "events": ("events", events.events),
    "above": ("above", above.above),
}


def print_answer(metrics: Scores, label: str, asked: Mapping[str, Any], against: Mapping[str, str] = NONE) -> None:
    """Print what the scores of a run, a scored file or a hindcast called `label` say, in few lines.

    `asked` are the arguments of the command. Below the answer stand the tables that they ask for, and a line names
    those of what was asked for before. `against` are the systems with which the first system is compared, and what
    they are called.
    """
    is_hindcast = metrics["kind"] == "hindcast"
    texts = [f"{text}." for text in (squared_error(metrics), summary(metrics)) if text]
    _print_wrapped([f"{label}: {texts[0]}", *texts[1:]])
    if is_hindcast:
        print_sheets([lines_of_systems(metrics, label)], width=ANSWER_WIDTH)
    _print_wrapped(
        [*(about_the_distribution(metrics) if is_hindcast else answers(metrics, [*against])), added(metrics)]
    )
    _print_wrapped(gains(metrics))
    baselines = of_role(metrics["systems"], BASELINE)
    sheets = [versus(metrics, label, *of) for of in against.items() if of[0] not in baselines]
    kept = []
    for argument, (key, tables) in ASKED.items():
        if asked.get(argument):
            sheets += [sheet for sheet in tables(metrics, label) if sheet.is_printed]
        elif key in metrics:
            kept.append(f"--{argument.replace('_', '-')}")
    print_sheets(sheets, width=ANSWER_WIDTH)
    if notes := {sheet.note for sheet in sheets} - {""}:
        _print_wrapped(notes)
    if kept:
        _print_wrapped([f"Also scored, as asked for before: {', '.join(kept)}; --tables prints their tables."])


def _print_wrapped(texts: Iterable[str]) -> None:
    """Print each text in lines of `ANSWER_WIDTH` columns that part no number from its unit."""
    for text in filter(None, texts):
        whole = re.sub(r"(?<=\d) (?=[%°])", "\u00a0", printable(text))
        for line in textwrap.wrap(whole, ANSWER_WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            show(line.replace("\u00a0", " "))


def print_scores(metrics: Scores, label: str, against: Mapping[str, str] = NONE) -> None:
    """Print all tables of the scores of a run, a scored file or a hindcast called `label`.

    `against` are the systems with which the first system is compared by lead, by default the reference, and what
    they are called.
    """
    system, name = first_system(metrics), first_name(metrics, label)
    sections = sections_of(metrics, label)
    sheets = [
        *sections.pop("scores"),
        *(
            versus(metrics, label, base, against.get(base, ""))
            for base in bases(metrics, against)
            if base != system
        ),
        *(ratios(metrics, label) if metrics["kind"] == "hindcast" else []),
        *(sheet for of_section in sections.values() for sheet in of_section if sheet.is_printed),
    ]
    print_sheets(
        sheets,
        f"{label}: {summary(metrics)}",
        name,
        "\n".join(filter(None, [added(metrics), *gains(metrics)])),
    )
    for note in (NOTE, VARY):
        _print_once(note)


@cache
def _print_once(note: str) -> None:
    """Print a note, unless a table of the same command had it."""
    show(note)


def print_sheets(
    sheets: Sequence[Sheet], heading: str = "", bold: str = "", note: str = "", width: int = 0
) -> None:
    """Print tables between a `heading` and a `note`, with the rows called `bold` in bold type.

    They are as wide as the terminal, or 140 columns if standard output is not a terminal, and not wider than a
    `width` if one is given.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    terminal = console.width if console.is_terminal else 140
    console.width = min(width or terminal, terminal)
    if heading:
        console.print(printable(heading), soft_wrap=True)
    for sheet in sheets:
        title = printable(sheet.title)
        for part in _parts_that_fit(sheet, console.width):
            table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
            table.add_column("", no_wrap=True)
            for column, width in part.items():
                table.add_column(printable(sheet.header[column]), justify="right", overflow="fold", width=width)
            for name, cells in sheet.rows:
                row = [printable(cells[column]) for column in part]
                table.add_row(printable(name), *row, style="bold" if name == bold else None)
            console.print(table)
            title = ""
    for line in note.splitlines():
        console.print(printable(line), soft_wrap=True)


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
