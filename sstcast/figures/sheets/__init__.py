"""The tables of scores. For each kind of score, a file of the same name reads what the kind wrote."""

from sstcast.figures.sheets import above, areas, distributions, errors, events, heatwaves, points, terciles
from sstcast.figures.sheets.sheet import Scores, Sheets

SHEETS = (errors, distributions, heatwaves, above, terciles, areas, points, events)


def sections_of(metrics: Scores, label: str) -> Sheets:
    """Return the tables of all kinds of scores by the section of a report in which they stand.

    `label` is the name of the scored run, file or hindcast.
    """
    sections: Sheets = {}
    for kind in SHEETS:
        for section, sheets in kind.sheets(metrics, label).items():
            sections.setdefault(section, []).extend(sheets)
    return sections
