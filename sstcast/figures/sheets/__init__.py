"""The tables of scores. For each kind of score, a file of the same name reads what the kind wrote."""

from collections.abc import Callable

from sstcast.figures.sheets import above, areas, distributions, errors, events, heatwaves, points, rivals, terciles
from sstcast.figures.sheets.sheet import Sheet
from sstcast.types import Scores

SHEETS: dict[str, list[Callable[[Scores, str], list[Sheet]]]] = {  # by the section of a report in which they stand
    "scores": [errors.errors, errors.by_index, rivals.rivals],
    "indices": [errors.indices, areas.areas],
    "probabilities": [distributions.probabilities],
    "ensemble": [distributions.ensembles],
    "heatwaves": [heatwaves.heatwaves, above.above, events.events],
    "terciles": [terciles.terciles],
    "points": [points.points],
}


def sections_of(metrics: Scores, label: str) -> dict[str, list[Sheet]]:
    """Return all tables of scores by section. `label` is the name of the scored run, file or hindcast."""
    return {
        section: [sheet for function in functions for sheet in function(metrics, label)]
        for section, functions in SHEETS.items()
    }
