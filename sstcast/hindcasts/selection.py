"""Chooses the system of a fold by a hindcast of the years before it: the score is of "choose, then train"."""

from pathlib import Path

import numpy as np

from sstcast.config import RunConfig
from sstcast.forecasting.predictor import predictor_of
from sstcast.hindcasts.fold import train_run
from sstcast.hindcasts.plan import Fold, Protocol
from sstcast.ocean.prepare import prepare
from sstcast.runs import Run
from sstcast.scores.combine import combine, error_products
from sstcast.scores.verification import Verification


def select_run(
    systems: list[RunConfig], parts: list[Path], config: RunConfig, protocol: Protocol, fold: Fold
) -> str:
    """Make the run of a fold that forecasts as the best of its `parts`, one for each of `systems`.

    The best has the least mean squared error in degC2 on the two folds before this one, each forecast after
    training on the years before it; these runs are in the folder `choice` beside the fold's.
    """
    errors = np.zeros(len(systems))
    for number, system in enumerate(systems):
        for earlier in protocol.before(fold).folds:
            runs = config.runs / "choice" / fold.name / system.name
            data, *also = map(earlier.split, system.oceans)
            one = system.model_copy(update={"name": earlier.name, "runs": runs, "data": data, "also": tuple(also)})
            for ocean in one.oceans:
                prepare(ocean, lambda line: None)
            train_run(one)
            tests = Verification.open(data, every=protocol.every)
            weeks = error_products([predictor_of(Run(one.folder))], tests)[:, 0, 0]
            days = np.bincount(np.arange(data.horizon) // 7)
            errors[number] += weeks @ days / data.horizon
    said: list[str] = []
    combine([Run(part) for part in parts], config.folder, chosen=int(errors.argmin()), say=said.append)
    return f"{said[0]}; chosen: {systems[int(errors.argmin())].name}"
