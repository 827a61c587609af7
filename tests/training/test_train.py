import itertools
import os
import signal
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from runs_of_training import setup, weights
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.nn.modules.module import register_module_forward_hook
from untrained import make_run

from sstcast.config import RunConfig, load_config
from sstcast.errors import Interrupted, SSTCastError
from sstcast.models.base import ForecastModel
from sstcast.ocean.windows import Windows
from sstcast.runs import Run
from sstcast.stopping import StopRequest
from sstcast.storage.artefacts import locked
from sstcast.training.checkpoint import load_best, load_checkpoint, load_weights, save_checkpoint
from sstcast.training.devices import choose_device, start
from sstcast.training.forecast_task import ForecastTask
from sstcast.training.run_list import describe
from sstcast.training.train import forecaster, train, training_windows


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int, number: signal.Signals) -> None:
    """Send this process a signal after so many batches."""
    drawn, draw = itertools.count(1), Windows.batch

    def counting(*arguments: object) -> object:
        if next(drawn) == steps:
            os.kill(os.getpid(), number)
        return draw(*arguments)

    monkeypatch.setattr(Windows, "batch", counting)


def validation_mse(model: torch.nn.Module, config: RunConfig, windows: dict[str, Windows]) -> float:
    task = ForecastTask(windows, config.training, start(config.training))
    return task.validate(model.eval())["mse"]


def test_it_learns_and_leaves_the_documented_files(run_yaml: Path) -> None:
    config, windows = setup(run_yaml, "training.epochs=5")
    untrained = validation_mse(forecaster(config, windows["train"]), config, windows)
    run, new = train(config, windows)
    assert new
    history = pd.read_csv(run.history)
    assert list(history["epoch"]) == [0, 1, 2, 3, 4]
    model = forecaster(config, windows["train"])
    best = load_checkpoint(run.best)
    load_weights(model, best, run.best)
    error = validation_mse(model, config, windows)
    assert error == pytest.approx(history["validation_mse"].min(), rel=1e-5)
    assert best["epoch"] == history["validation_mse"].argmin()
    assert error < 0.7 * untrained
    assert run.config == config
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload().Scalars("validation_mse")
    assert [event.step for event in events] == [0, 1, 2, 3, 4]
    assert describe(run)["best validation"] == f"{min(event.value for event in events):.4f} (mse)"
    run.history.unlink()  # as after a kill between the last checkpoint and this
    assert train(config, windows) == (run, False)
    pd.testing.assert_frame_equal(pd.read_csv(run.history), history)


def test_a_run_that_another_process_trains_is_waited_for(run_yaml: Path) -> None:
    config, windows = setup(run_yaml, "training.epochs=1", "training.windows_per_epoch=20")
    checkpoints, held = Run(config.folder).checkpoints, threading.Event()
    written: list[Path] = []

    def hold() -> None:
        with locked(checkpoints):
            held.set()
            time.sleep(0.5)
            written.extend(checkpoints.glob("*.pt"))

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    _, new = train(config, windows)
    other.join()
    assert new
    assert not written


def test_validation_is_a_mean_over_elements_not_over_batches(run_yaml: Path) -> None:
    config, windows = setup(run_yaml)
    model, split = forecaster(config, windows["train"]).eval(), windows["validation"]
    batch = split.batch(torch.arange(len(split)))
    with torch.no_grad():
        error = ((model(batch.history, batch.graph) - batch.target) ** 2)[batch.ocean].mean()
    assert batch.ocean.sum(1).unique().numel() > 1  # tiles with different numbers of ocean cells
    for batch_size in (9, 16, 2500):
        config, _ = setup(run_yaml, f"training.batch_size={batch_size}")
        assert validation_mse(model, config, windows) == pytest.approx(float(error), rel=1e-5)


def test_an_interrupted_run_ends_with_the_same_weights(run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in its first epoch by Ctrl-C, and after that in the next one by SIGTERM."""
    options = ["model.dropout=0.1", "training.epochs=2", "training.windows_per_epoch=100"]
    undisturbed, _ = train(*setup(run_yaml, *options))
    config, windows = setup(run_yaml, *options, "name=disturbed")
    for steps, number in ((3, signal.SIGINT), (15, signal.SIGTERM)):
        with monkeypatch.context() as patch:
            interrupt_after(patch, steps, number)
            with pytest.raises(Interrupted) as stop:
                train(config, windows)
        assert stop.value.signal == number
        Run.open(config.folder)  # has a usable checkpoint
    disturbed, new = train(config, windows)
    assert new
    for name, value in weights(undisturbed).items():
        assert torch.equal(value, weights(disturbed)[name]), name
    ours, theirs = (pd.read_csv(run.history).drop(columns="seconds") for run in (undisturbed, disturbed))
    pd.testing.assert_frame_equal(ours, theirs)


def test_a_signal_during_the_last_validation_is_heard(run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, windows = setup(run_yaml, "training.epochs=1")
    validate = ForecastTask.validate

    def signalled(self: ForecastTask, model: torch.nn.Module) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGTERM)
        return validate(self, model)

    monkeypatch.setattr(ForecastTask, "validate", signalled)
    with pytest.raises(Interrupted) as stop:
        train(config, windows)
    assert stop.value.signal == signal.SIGTERM
    assert not train(config, windows)[1]  # all was saved


def test_only_a_second_ctrl_c_interrupts_at_once() -> None:
    with StopRequest() as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_every_epoch_trains_with_dropout_on(run_yaml: Path) -> None:
    config, windows = setup(run_yaml)
    modes = []

    def watch(module: torch.nn.Module, *_: object) -> None:
        modes.extend([(module.training, torch.is_grad_enabled())] * isinstance(module, ForecastModel))

    with register_module_forward_hook(watch):
        train(config, windows)
    assert modes.count((True, True)) == 2 * 10
    assert all(training == grad for training, grad in modes)


def test_of_equal_scores_the_lower_loss_is_better(run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few validation samples often have equal scores. A lower loss outweighs no worse score."""
    scores = iter([(2.0, 5.0), (1.0, 9.0), (1.0, 7.0), (1.0, 8.0), (3.0, 1.0)])
    monkeypatch.setattr(
        ForecastTask, "validate", lambda *_: dict(zip(("error", "loss"), next(scores), strict=True))
    )
    config, windows = setup(run_yaml, "training.epochs=50", "training.patience=2", "training.windows_per_epoch=40")
    run, _ = train(config, windows)
    assert list(pd.read_csv(run.history)["best"]) == [True, True, True, False, False]
    assert load_checkpoint(run.best)["epoch"] == 2
    assert not train(config, windows)[1]


def test_half_a_configuration_is_refused(run_yaml: Path) -> None:
    """Cut after a line, the file may still be valid, with defaults for the missing keys."""
    run = make_run(load_config(run_yaml))
    whole, lines = run.config, run.config_file.read_text().splitlines(keepends=True)
    refused = 0
    for count in range(1, len(lines)):
        run.config_file.write_text("".join(lines[:count]))
        try:
            load_best(run, run.config)
            assert not run.config.difference(whole)
        except SSTCastError:
            refused += 1
    assert refused > len(lines) // 2


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/sstcast-was-here",)


@pytest.mark.parametrize("content", ["absent", "empty", "bit", "pickle", "format"])
def test_damaged_and_hostile_checkpoints_are_refused(tmp_path: Path, run_yaml: Path, content: str) -> None:
    path = tmp_path / "best.pt"
    if content == "bit":
        weights = torch.arange(1000.0)
        save_checkpoint(path, load_config(run_yaml), model={"w": weights})
        whole, inside = bytearray(path.read_bytes()), weights[500:510].numpy().tobytes()
        whole[whole.index(inside)] ^= 1
        path.write_bytes(whole)
    elif content == "pickle":
        torch.save({"format": 1, "model": Malicious()}, path)
    elif content == "format":
        torch.save({"format": 99, "model": {}}, path)
    elif content != "absent":
        path.touch()
    with pytest.raises(SSTCastError, match=r"best\.pt"):
        load_checkpoint(path)
    assert not Path("/tmp/sstcast-was-here").exists()


@pytest.mark.parametrize("name", ["tpu9", "meta"])
def test_no_such_device(name: str) -> None:
    with pytest.raises(SSTCastError, match=rf"training.device: '{name}' is not available"):
        choose_device(name)


def test_a_split_that_is_too_short_or_outside_the_data(run_yaml: Path) -> None:
    """`prepare` refuses such a split, but it may have run before the split was changed."""
    setup(run_yaml)
    longer, shorter = (
        load_config(run_yaml, [f"data.splits.validation=[2003-01-01, 2003-01-{day}]"]) for day in (16, 15)
    )
    assert len(training_windows(longer)["validation"]) == 2
    with pytest.raises(SSTCastError, match=r"data.splits.validation: 15 days, but a window needs 16; lengthen it"):
        training_windows(shorter)
    beyond = load_config(run_yaml, ["data.splits.test=[2006-01-01, 2006-12-31]"])
    with pytest.raises(SSTCastError, match=r"data.splits.test: 2006-01-01..2006-12-31 has days outside the data"):
        training_windows(beyond)
