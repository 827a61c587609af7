"""Prints leaderboards, and writes them to `leaderboard.csv` and `leaderboard.html`."""

import csv
from collections.abc import Sequence
from pathlib import Path

from sstcast._version import __version__
from sstcast.errors import SSTCastError, printable
from sstcast.figures.answers import label_of, summary
from sstcast.figures.printing import print_sheets
from sstcast.figures.sheets.errors import errors
from sstcast.figures.sheets.sheet import ASTERISK, Sheet, ratio_text
from sstcast.figures.tables import VARY
from sstcast.log import LOG
from sstcast.names import DEFAULT_REFERENCE, STANDARDISED
from sstcast.reports.images import write_page
from sstcast.runs import Run
from sstcast.scores.leaderboard import Contest, LeaderboardEntry, SeedMean, leaderboard_columns
from sstcast.scores.saved_scores import SavedScores
from sstcast.storage.artefacts import atomic, check_own
from sstcast.storage.paths import below

FIRST_COLUMNS = ("contest", "name", "runs", "members")
REMEDY = "rename it"
NOTE = (
    "Mean ± standard deviation over seeds. (std) in standardised units with equal weights, the others in °C "
    f"weighted by area. MSE ratio: to the {DEFAULT_REFERENCE} of the same training years, in °C². {ASTERISK}"
)


def print_leaderboard(contests: list[Contest], others: Sequence[Sheet] = ()) -> None:
    """Print a table for each contest, hindcast and file. Name equal runs, and tell if some cannot be compared."""
    notes = [NOTE] * bool(contests)
    if len(contests) > 1:
        notes.append(
            f"{len(contests)} tables, because runs with different data or test periods cannot be compared."
        )
    notes += _repeated(contests)
    print_sheets([*map(_sheet, contests), *others], note="\n".join([*notes, VARY]))


def write_leaderboard(contests: list[Contest], folder: Path, others: Sequence[Sheet] = ()) -> tuple[Path, Path]:
    """Write `leaderboard.csv` and `leaderboard.html` to `folder`. Only the page includes `others`."""
    table, page = folder / "leaderboard.csv", folder / "leaderboard.html"
    check_own(table, REMEDY, ",".join(FIRST_COLUMNS))
    check_own(page, REMEDY)
    with atomic(table) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        metrics = [
            f"{units}_{metric}{part}" for _, units, metric in leaderboard_columns() for part in ("", "_spread")
        ]
        rows.writerow([*FIRST_COLUMNS, *metrics, "mse_ratio", "mse_ratio_low", "mse_ratio_high"])
        for contest in contests:
            rows.writerows([contest.title, *_record(entry)] for entry in contest.entries)
    write_page(
        page,
        "leaderboard.html",
        {"sstcast": __version__},
        sheets=[*map(_sheet, contests), *others],
        notes=[NOTE, *_repeated(contests)],
    )
    return table, page


def other_sheets(folder: Path) -> list[Sheet]:
    """Return a table for each finished hindcast and each scored file in or below a folder.

    Warn of damaged ones, and of those whose runs have been trained since, on stderr.
    """
    sheets = []
    hindcasts = {file.parent for file in below(folder, "hindcast.csv")}
    scored = {file.parent for file in below(folder, "scores.nc")}
    for found in sorted(hindcasts | {of for of in scored if not Run(of).config_file.exists()}):
        try:
            metrics = SavedScores.read(found).metrics
        except SSTCastError as error:
            LOG.warning(f"left out: {error}")
            continue
        if metrics["kind"] != "file" and found not in hindcasts:  # which is not finished
            continue
        name = label_of(metrics, found)
        sheet = errors(metrics, name)[0]
        sheets.append(Sheet(f"{name}: {summary(metrics)}. {sheet.title}", sheet.header, sheet.rows))
    return sheets


def _repeated(contests: Sequence[Contest]) -> list[str]:
    return [printable(line) for contest in contests for line in contest.repeated]


def _sheet(contest: Contest) -> Sheet:
    header = ["runs", *(heading for heading, *_ in leaderboard_columns()), "MSE ratio (95 %)"]
    return Sheet(contest.title, header, [(_name(entry), _cells(entry)) for entry in contest.entries])


def _name(entry: LeaderboardEntry) -> str:
    return f"{entry.name} ({entry.members} members)" if entry.members > 1 else entry.name


def _cells(entry: LeaderboardEntry) -> list[str]:
    scores = [_text(score, 4 if units == STANDARDISED else 3) for (units, _), score in entry.scores.items()]
    return [str(entry.runs or ""), *scores, ratio_text(entry.compared)]


def _text(score: SeedMean, digits: int) -> str:
    numbers = [number for number in (score.mean, score.spread) if number is not None]
    return " ± ".join(f"{number:.{digits}f}" for number in numbers) or "-"


def _record(entry: LeaderboardEntry) -> list[object]:
    numbers = [value for score in entry.scores.values() for value in (score.mean, score.spread)]
    compared = entry.compared
    return [entry.name, entry.runs, entry.members, *numbers, compared["ratio"], *compared["interval"]]
