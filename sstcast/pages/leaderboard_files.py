"""A leaderboard on the terminal, as `leaderboard.csv` and as `leaderboard.html`."""

import csv
from html import escape
from pathlib import Path

from sstcast.files import atomic
from sstcast.pages.leaderboard import COLUMNS, SIGNIFICANT, Contest, Entry, Score
from sstcast.pages.table import Sheet, open_console, print_sheet

NOTE = (
    "Mean ± standard deviation over seeds. * in standardised units, cells counted alike; the others °C by area. "
    "p: Diebold-Mariano test against the first line, adjusted for the number of lines; "
    f"↓ significantly worse (p < {SIGNIFICANT})."
)

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what begins with one is computed by a spreadsheet

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>sstcast leaderboard</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; }}
body {{ margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }}
.wide {{ overflow-x: auto; margin: 1.5rem 0; }}
table {{ border-collapse: collapse; }}
caption {{ text-align: left; font-weight: bold; }}
th, td {{ padding: .3rem .5rem; text-align: right; border-bottom: 1px solid #ccc; white-space: nowrap; }}
th:first-child {{ text-align: left; }}
tbody th {{ font-weight: normal; }}
tbody tr:first-child > * {{ font-weight: bold; }}
</style>
</head>
<body>
<h1>Leaderboard</h1>
{tables}
<p>{note}</p>
</body>
</html>
"""


def print_leaderboard(contests: list[Contest]) -> None:
    """Print a table a contest, and say so where runs cannot be compared."""
    console = open_console()
    for contest in contests:
        print_sheet(console, _sheet(contest))
    console.print(NOTE, soft_wrap=True)
    if len(contests) > 1:
        console.print(
            f"{len(contests)} tables: runs of other data or test periods cannot be compared", soft_wrap=True
        )


def write_leaderboard(contests: list[Contest], folder: Path) -> tuple[Path, Path]:
    """Write both files into `folder` and return their paths."""
    files = folder / "leaderboard.csv", folder / "leaderboard.html"
    with atomic(files[0]) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        metrics = [f"{units}_{metric}{part}" for _, units, metric in COLUMNS for part in ("", "_spread")]
        rows.writerow(["contest", "name", "runs", "members", *metrics, "p_value"])
        for contest in contests:
            rows.writerows(map(_plain, [contest.title, *_record(entry)]) for entry in contest.entries)
    page = PAGE.format(tables="".join(map(_table, contests)), note=escape(NOTE))
    with atomic(files[1]) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return files


def _sheet(contest: Contest) -> Sheet:
    header = ["seeds", *(name for name, *_ in COLUMNS), "p"]
    return Sheet(contest.title, header, [(_name(entry), _cells(entry)) for entry in contest.entries])


def _name(entry: Entry) -> str:
    return f"{entry.name} ({entry.members} members)" if entry.members > 1 else entry.name


def _cells(entry: Entry) -> list[str]:
    p = "" if entry.p_value != entry.p_value else "<0.001" if entry.p_value < 0.001 else f"{entry.p_value:.3f}"
    scores = [_text(entry.scores[units, metric]) for _, units, metric in COLUMNS]
    return [str(entry.runs or ""), *scores, f"{p} ↓" if entry.worse else p]


def _text(score: Score) -> str:
    if score.mean is None:
        return "-"
    return f"{score.mean:.3f}" if score.spread is None else f"{score.mean:.3f} ± {score.spread:.3f}"


def _record(entry: Entry) -> list[object]:
    scores = [entry.scores[units, metric] for _, units, metric in COLUMNS]
    numbers = [value for score in scores for value in (score.mean, score.spread)]
    p_value = None if entry.p_value != entry.p_value else entry.p_value
    return [entry.name, entry.runs, entry.members, *numbers, p_value]


def _plain(cell: object) -> object:
    """Keep a spreadsheet from taking text for a formula; numbers stay numbers."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA else cell


def _table(contest: Contest) -> str:
    sheet = _sheet(contest)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("", *sheet.header))
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, cells in sheet.rows
    )
    caption = escape(sheet.title)
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="wide" role="region" aria-label="{caption}" tabindex="0">{table}</div>'
