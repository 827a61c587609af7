"""Chooses the system of a fold by its forecasts of the folds before: the score is of "choose, then train"."""

from pathlib import Path

import numpy as np

from sstcast.config import RunConfig
from sstcast.forecasting.predictor import predictor_of
from sstcast.runs import Run
from sstcast.scores.combine import combine, error_products
from sstcast.scores.verification import Verification


def select_run(parts: dict[Path, list[Path]], config: RunConfig, every: int) -> str:
    """Make the run of a fold that forecasts as the best of its `parts`.

    Args:
        parts: a system's run of the fold, and its runs of the two folds before it, which saw no year of the fold.
        config: of the run to make.
        every: days from one initial date to the next.

    The best has the least mean squared error in degC2 on the two folds before.
    """
    errors = [sum(_squared_error(Run.open(run), every) for run in earlier) for earlier in parts.values()]
    best = int(np.argmin(errors))
    said: list[str] = []
    combine([Run(part) for part in parts], config.folder, chosen=best, say=said.append)
    return f"{said[0]}; chosen: {list(parts)[best].parent.name}"


def _squared_error(run: Run, every: int) -> float:
    """Return the mean squared error of a run over all leads of its test years, in degC2."""
    tests = Verification.open(run.config.data, every=every)
    weeks = error_products([predictor_of(run)], tests)[:, 0, 0]
    days = np.bincount(np.arange(tests.windows.horizon) // 7)
    return float(weeks @ days / days.sum())
