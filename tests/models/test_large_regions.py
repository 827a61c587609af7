"""A region too large for memory, which linear systems read from a file."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scored_runs import configure

from sstcast.config import RunConfig
from sstcast.models import modes
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import Windows, whole_windows
from sstcast.training.task import samples


@pytest.fixture
def config(tmp_path: Path, sst_file: Path) -> RunConfig:
    config = configure(tmp_path, sst_file)
    prepare(config.data, say=lambda line: None)
    return config


def windows(config: RunConfig, split: str) -> Windows:
    return whole_windows(Prepared.of(config.data).open()[1], config.data, split)


def test_values_in_a_file_are_those_in_memory(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = windows(config, "validation")
    monkeypatch.setattr("sstcast.scratch.KEPT", 0)
    in_file = windows(config, "validation")
    index = torch.arange(len(in_memory))
    for field in ("history", "target", "ocean"):
        assert torch.equal(getattr(in_file.batch(index), field), getattr(in_memory.batch(index), field))
    assert sum(part.starts for part in samples(in_file)(3)) == -(-(365 - 18) // 3)


def test_eofs_of_many_days_are_those_of_some(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    of_all = modes.eofs(samples(windows(config, "train")), 2).numpy()
    monkeypatch.setattr(modes, "LARGEST_FIELD", 96 * 100)
    of_some = modes.eofs(samples(windows(config, "train")), 2).numpy()
    assert not np.array_equal(of_all, of_some)
    np.testing.assert_allclose(of_some @ of_some.T, np.eye(2), atol=1e-5)
    shared = np.linalg.svd(of_all @ of_some.T)[1]  # the wave of the small ocean is in both
    assert shared.min() > 0.99
