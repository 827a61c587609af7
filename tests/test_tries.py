"""The registry of hindcasts that were looked at against the tables of hindcasts in the results and in the log."""

import csv
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("docs/results.md", "perf/log.md")
ERROR = "MSE, °C²"


def rows_of_tables() -> list[tuple[str, str, str]]:
    """Return section, system and ratio of each row of the tables of hindcasts."""
    found, section = [], ""
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    for is_table, lines in groupby(text.splitlines(), lambda line: line[:1] == "|"):
        if not is_table:
            section = [section, *(line.lstrip("# ") for line in lines if line.startswith("#"))][-1]
            continue
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        if ERROR in header or header[0] == "tried":
            name = slice(header.index(ERROR) if ERROR in header else 1)
            ratio = next(number for number, title in enumerate(header) if title.startswith("ratio"))
            found += [(section, " ".join(row[name]), row[ratio].split(",")[0]) for row in rows]
    return found


def test_the_registry_holds_the_rows_of_the_tables() -> None:
    with (ROOT / "docs/tries.csv").open(newline="") as file:
        tries = list(csv.DictReader(file))
    assert all(one["date"] and one["command"] and one["ocean"] and float(one["ratio"]) > 0 for one in tries)
    registered = [(one["table"], one["system"], one["ratio"]) for one in tries if one["table"]]
    assert sorted(registered) == sorted(rows_of_tables())
