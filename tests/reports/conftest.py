"""An ensemble with the files of its training, for tests of maps and reports, and a browser."""

from collections.abc import Iterator

import pandas as pd
import pytest
from chrome import Chrome, find_chrome

from sstcast.runs import Run


@pytest.fixture(scope="session")
def evaluated(ensemble: Run) -> Run:
    """The ensemble with three epochs of history a member. Tests that write to it leave it as it was."""
    for seed, member in enumerate(ensemble.members):
        epochs = {
            "epoch": [0, 1, 2],
            "train_loss": [0.9, 0.8, 0.7],
            "learning_rate": 0.001,
            "validation_mse": [0.8 + seed, 0.625 + seed, 0.75 + seed],
            "best": [True, True, False],
            "seconds": [10.0, 20.0, 30.0],
        }
        pd.DataFrame(epochs).to_csv(member.history, index=False)
        steps = {
            "step": range(1, 7),
            "epoch": [0.5, 1, 1.5, 2, 2.5, 3],
            "train_loss": [1.1, 0.9, 0.9, 0.8, 0.8, 0.7],
        }
        pd.DataFrame(steps).to_csv(member.curve, index=False)
    return ensemble


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    if (executable := find_chrome()) is None:
        pytest.skip("no Chromium or Chrome on PATH to look at the page with")
    with Chrome(executable, tmp_path_factory.mktemp("profile")) as browser:
        yield browser
