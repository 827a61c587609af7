"""A signal within a step drops the step, and the same call resumes to the same bits."""

import logging
import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import sstcast
from sstcast.errors import Interrupted, SSTCastError
from sstcast.graphs import graph
from sstcast.training import long_steps
from sstcast.training.long_steps import LayerWatch

KEYS = ["model.width=8", "model.layers=2", "model.attention=performer", "model.norm=batch", "model.dropout=0.1"]
KEYS += ["training.epochs=3", "training.device=cpu", "split=60/20/20", "model.conv_norm=batch"]


def ring(nodes: int = 40) -> Data:
    ends = torch.arange(nodes)
    x = torch.randn(nodes, 3, generator=torch.Generator().manual_seed(0))
    return Data(x=x, edge_index=torch.stack([ends, (ends + 1) % nodes]), y=ends % 2)


def train(folder: Path, *more: str) -> dict[str, Any]:
    places = [f"runs={folder}/runs", f"cache={folder}/cache"]
    (result,) = sstcast.benchmark(ring(), "gps", overrides=[*KEYS, *places, *more])
    return result


def outcome(folder: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the last weights with all buffers, and the history."""
    (history,) = folder.rglob("history.csv")
    last = max((history.parent / "checkpoints").glob("step-*.pt"))
    return torch.load(last, weights_only=True), pd.read_csv(history).drop(columns="seconds")


@pytest.mark.parametrize("ema", [(), ("training.ema=0.9",)])
def test_a_step_is_dropped_at_any_layer(
    ema: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Signals come in the first forward pass, a backward pass, a validation and the last epoch."""
    monkeypatch.setattr(long_steps, "SHORT", 0.0)
    monkeypatch.setattr(long_steps, "TOLD_EVERY", 0.0)
    expected = train(tmp_path / "undisturbed", *ema)
    look, calls = LayerWatch._look, [0]
    with caplog.at_level(logging.INFO, "sstcast"), monkeypatch.context() as patch:

        def interrupt(watch: LayerWatch) -> None:
            calls[0] += 1
            if calls[0] == limit:
                os.kill(os.getpid(), signal.SIGTERM)
            look(watch)

        patch.setattr(LayerWatch, "_look", interrupt)
        for limit in (3, 60, 85, 130, 2):
            calls[0] = 0
            with pytest.raises(Interrupted) as stop:
                train(tmp_path / "disturbed", *ema)
            assert stop.value.signal == signal.SIGTERM
            assert calls[0] == limit  # no layer after it
    found = train(tmp_path / "disturbed", *ema)
    assert (found["test"], found["validation"]) == (expected["test"], expected["validation"])
    (ours, history), (theirs, other) = outcome(tmp_path / "disturbed"), outcome(tmp_path / "undisturbed")
    pd.testing.assert_frame_equal(history, other)
    for part in ("model", "ema") if ema else ("model",):
        for name, value in theirs[part].items():
            assert torch.equal(ours[part][name], value), name
    assert "layers forward" in caplog.text
    assert "a step takes 0 s, about 0 minutes for the 2 left" in caplog.text


def test_layers_are_not_watched_once_a_step_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(LayerWatch, "_look", lambda watch: looks.append(watch.models[0].training))
    train(tmp_path)
    assert 0 < looks.count(True) < 200
    assert False not in looks


def test_full_attention_beyond_free_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SSTCastError, match=r"10,000,000 x 10,000,000 nodes: needs 372529\.0 GiB"):
        graph.check_full_attention(10_000_000, graph.CPU)
    monkeypatch.setattr(graph, "UNCHECKED", 0)
    train(tmp_path / "fits", "model.attention=softmax", "training.epochs=1")
    monkeypatch.setattr(graph, "MEMORY", 4 * 40**2 - 1)
    with monkeypatch.context() as patch:
        patch.setattr(graph, "AVAILABLE", tmp_path / "absent")  # as on systems without /proc/meminfo
        with pytest.raises(SSTCastError, match=r"40 x 40 nodes: .*choose a linear model or attention"):
            train(tmp_path, "model.attention=softmax")
        assert not (tmp_path / "runs").exists()  # so that the same name can be trained with another attention
        patch.setattr(graph, "MEMORY", 4 * 40**2)
        graph.check_full_attention(40, graph.CPU)
        train(tmp_path, "training.epochs=1")
