"""A region too large for memory: linear systems read it block by block and come out the same."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scored_runs import configure

from sstcast.config import RunConfig
from sstcast.errors import SSTCastError
from sstcast.models import LINEAR, build_forecaster, modes
from sstcast.models.linear import LinearSystem
from sstcast.ocean import whole
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import WholeRegion
from sstcast.training.task import fit, samples


@pytest.fixture
def config(tmp_path: Path, sst_file: Path) -> RunConfig:
    config = configure(tmp_path, sst_file)
    prepare(config.data, say=lambda line: None)
    return config


def windows(config: RunConfig, split: str) -> WholeRegion:
    return WholeRegion.of(Prepared.of(config.data).open()[1], config.data, split)


@pytest.mark.parametrize("stride", [1, 3, 7])
def test_blocks_hold_every_window_once(config: RunConfig, monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    (kept,) = windows(config, "validation").blocks(stride)
    together = kept.batch(torch.arange(len(kept)))
    monkeypatch.setattr(whole, "KEPT", 0)
    monkeypatch.setattr(whole, "AT_ONCE", 96 * 50)
    blocks = list(windows(config, "validation").blocks(stride))
    assert len(blocks) > 5
    assert max(len(block.values) for block in blocks) <= 50 + 18
    parts = [block.batch(torch.arange(len(block))) for block in blocks]
    for field in ("history", "target", "ocean"):
        assert torch.equal(torch.cat([getattr(part, field) for part in parts]), getattr(together, field))
    geography = [part.graph.geography for part in parts]
    assert all(one is not None for one in geography)
    assert together.graph.geography is not None
    assert torch.equal(torch.cat([one for one in geography if one is not None]), together.graph.geography)
    assert len(kept) == -(-(365 - 18) // stride)


@pytest.mark.parametrize("name", LINEAR)
def test_a_system_fitted_in_blocks_is_the_same(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    forecasts = []
    for kept in (whole.KEPT, 0):
        monkeypatch.setattr(whole, "KEPT", kept)
        monkeypatch.setattr(whole, "AT_ONCE", 96 * 50)
        train, validation = windows(config, "train"), windows(config, "validation")
        model = build_forecaster(name, history=10, horizon=8, shape=train.shape)
        assert isinstance(model, LinearSystem)
        fit(model, train, validation)
        with torch.no_grad():
            forecasts.append(torch.cat([model.ahead(part) for part in samples(validation)(5)]).numpy())
    np.testing.assert_allclose(forecasts[0], forecasts[1], atol=1e-4)


def test_eofs_of_many_days_are_those_of_some(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    of_all = modes.eofs(samples(windows(config, "train")), 2).numpy()
    monkeypatch.setattr(modes, "LARGEST_FIELD", 96 * 100)
    of_some = modes.eofs(samples(windows(config, "train")), 2).numpy()
    assert not np.array_equal(of_all, of_some)
    np.testing.assert_allclose(of_some @ of_some.T, np.eye(2), atol=1e-5)
    shared = np.linalg.svd(of_all @ of_some.T)[1]  # the wave of the small ocean is in both
    assert shared.min() > 0.99


def test_too_few_days(config: RunConfig) -> None:
    splits = config.data.splits.model_copy(update={"validation": (config.data.splits.validation[0],) * 2})
    short = config.model_copy(update={"data": config.data.model_copy(update={"splits": splits})})
    with pytest.raises(SSTCastError, match=r"data\.splits\.validation: 1 days; a window needs 19: lengthen it"):
        windows(short, "validation")
