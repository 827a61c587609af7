"""The trainer against plain PyTorch, torch's schedulers, and itself on two processes."""

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from runs_of_training import setup, weights
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.optim import SGD, lr_scheduler

from sstcast import progress
from sstcast.config import TrainingConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.runs import Run
from sstcast.storage.paths import CACHE
from sstcast.training.checkpoint import load_checkpoint
from sstcast.training.devices import compile_model
from sstcast.training.engine import learning_rate
from sstcast.training.task import order_seed
from sstcast.training.train import forecaster, train


def test_windows_are_drawn_in_the_order_of_earlier_versions() -> None:
    """The order is seeded by Python's hash of seed and epoch."""
    for pair in ((0, 0), (3, 17), (2**63 - 1, 2)):
        assert order_seed(*pair) == hash(pair) % 2**63


def warm(optimizer: SGD, decay: lr_scheduler.LRScheduler) -> lr_scheduler.LRScheduler:
    """Rise for five steps, then decay for 35."""
    rise = lr_scheduler.LinearLR(optimizer, 1 / 5, 1.0, total_iters=4)
    return lr_scheduler.SequentialLR(optimizer, [rise, decay], [5])


SCHEDULES: dict[str, tuple[int, Callable[[SGD], lr_scheduler.LRScheduler]]] = {
    "constant": (0, lambda optimizer: lr_scheduler.ConstantLR(optimizer, 1)),
    "one-cycle": (0, lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40)),
    "cosine": (5, lambda optimizer: warm(optimizer, lr_scheduler.CosineAnnealingLR(optimizer, 35))),
    "linear": (5, lambda optimizer: warm(optimizer, lr_scheduler.PolynomialLR(optimizer, 35))),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_learning_rates_are_those_of_torch(name: str) -> None:
    optimizer, (warmup, scheduler) = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1), SCHEDULES[name]
    theirs, rates = scheduler(optimizer), []
    for _ in range(39):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    options = TrainingConfig(learning_rate=0.1, schedule=name, warmup=warmup)
    assert [learning_rate(step, 40, options) for step in range(39)] == pytest.approx(rates, rel=1e-6)


def test_training_is_plain_adam_on_the_mean_over_elements(run_yaml: Path) -> None:
    options = ["training.epochs=1", "training.clip=0.5", "training.weight_decay=0.01", "training.ema=0.8"]
    options += ["training.betas=[0.8, 0.95]", "training.eps=1.e-6"]
    config, windows = setup(run_yaml, *options, "training.accumulate=3")
    run, _ = train(config, windows)

    torch.manual_seed(0)
    model = forecaster(config, windows["train"])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=0.01, betas=(0.8, 0.95), eps=1e-6)
    mean = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.Generator().manual_seed(hash((0, 0)) % 2**63)
    losses = []
    for step, index in enumerate(torch.randperm(len(windows["train"]), generator=generator)[:200].split(20)):
        batch = windows["train"].batch(index)
        loss = (model(batch.history, batch.graph) - batch.target)[batch.ocean].square().mean()
        losses.append((float(loss.detach()), int(batch.ocean.sum())))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        for name, value in model.state_dict().items():
            mean[name] = value.clone() if step == 0 else 0.8 * mean[name] + 0.2 * value
    for name, value in weights(run).items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-3, atol=1e-5)
    for name, value in load_checkpoint(run.best)["model"].items():
        torch.testing.assert_close(value, mean[name], rtol=1e-3, atol=1e-5)
    total = sum(loss * count for loss, count in losses) / sum(count for _, count in losses)
    assert pd.read_csv(run.history)["train_loss"][0] == pytest.approx(total, rel=1e-4)
    curve = pd.read_csv(run.curve)
    assert curve["epoch"].tolist() == pytest.approx([(step + 1) / len(losses) for step in range(len(losses))])
    assert curve["train_loss"].tolist() == pytest.approx([loss for loss, _ in losses], rel=1e-3)


@pytest.mark.slow
def test_two_processes_train_like_one(run_yaml: Path) -> None:
    options = ["training.epochs=1", "training.windows_per_epoch=60", "training.accumulate=2"]
    alone, _ = train(*setup(run_yaml, *options))
    command = [sys.executable, "-m", "sstcast.cli", "train", str(run_yaml), "--devices", "2", "--strategy", "ddp"]
    command += [word for option in (*options, "name=two") for word in ("--set", option)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("two: trained") == 1  # one process speaks
    together = Run(alone.folder.with_name("two"))
    for column in ("train_loss", "validation_mse"):
        ours, theirs = (pd.read_csv(run.history)[column] for run in (alone, together))
        assert list(ours) == pytest.approx(list(theirs), rel=1e-4)
    for name, value in weights(alone).items():
        torch.testing.assert_close(value, weights(together)[name], rtol=1e-3, atol=1e-4)


TWO_PROCESSES = """
import sys
from pathlib import Path

import torch
from lightning_fabric import Fabric

from sstcast.config import TrainingConfig
from sstcast.models.base import Model
from sstcast.runs import Run
from sstcast.training.engine import Trainer


class Linear(Model):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.linear(x)


class Task:
    lower_is_better, static, learnt, validated = True, False, None, 0

    def order(self, seed, epoch):  # the last step leaves nothing for the second process
        return [torch.arange(4), torch.tensor([3])]

    def batch(self, index):
        return index[:, None].float()

    def weight(self, batch):
        return 0.01 * len(batch)

    def loss(self, model, batch):
        return 0.01 * model(batch).square().sum()

    def validate(self, model):  # the second process finds each epoch better, by a rounding error
        self.validated += 1
        return {"score": 1 - 1e-12 * self.validated * fabric.global_rank}


fabric = Fabric(accelerator="cpu", devices=int(sys.argv[2]), strategy="ddp" if sys.argv[2] == "2" else "auto")
fabric.launch()
torch.manual_seed(0)
run = Run(Path(sys.argv[1]))
run.checkpoints.mkdir(parents=True, exist_ok=True)
options = TrainingConfig(epochs=9, patience=2, batch_size=4, device="cpu", compile=False, optimizer="adagrad")
model = Linear()
trainer = Trainer(run, options, options, model, Task(), fabric)
trainer.fit()
if fabric.global_rank == 0:
    torch.save(model.state_dict(), run.folder / "end.pt")
Path(sys.argv[1], f"{fabric.global_rank}.txt").write_text(f"{trainer.state.epoch} {trainer.state.best_epoch}")
"""


def test_processes_stop_in_the_same_epoch_with_the_weights_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two.py").write_text(TWO_PROCESSES)
    command = [sys.executable, str(tmp_path / "two.py"), str(tmp_path / "run"), "2"]
    done = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"run/{rank}.txt").read_text() for rank in range(2)] == ["3 0", "3 0"]
    monkeypatch.setattr(sys, "argv", ["two.py", str(tmp_path / "alone"), "1"])
    runpy.run_path(str(tmp_path / "two.py"))
    ends = [torch.load(tmp_path / name / "end.pt", weights_only=True) for name in ("run", "alone")]
    for name, value in ends[0].items():
        torch.testing.assert_close(value, ends[1][name])
    histories = [pd.read_csv(tmp_path / name / "history.csv")["train_loss"] for name in ("run", "alone")]
    pd.testing.assert_series_equal(*histories, rtol=1e-5)
    torch.manual_seed(0)
    first = torch.nn.Linear(1, 1)  # whose mean loss does not depend on the scale of the weights
    step = first(torch.arange(4.0)[:, None]).square()
    assert pd.read_csv(tmp_path / "alone/curve.csv")["train_loss"][0] == pytest.approx(
        float(step.mean().detach()), rel=1e-5
    )


def test_compilation_that_fails_is_said_and_done_without(capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.BatchNorm1d(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def attempt(module: torch.nn.Module) -> None:
        model.running_mean += 1
        model.weight.grad = torch.ones(3)
        raise RuntimeError("no such luck\nat all")

    assert compile_model(model, True, torch.device("cpu"), 1, attempt) is model
    assert "not compiled: RuntimeError: no such luck; training continues without" in capsys.readouterr().err
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.weight.grad is None


def test_compiled_steps_of_a_gpu_are_cuda_graphs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", default_cache_dir())
    modes: list[str | None] = []
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(progress, "SHORT", 0)
    monkeypatch.setattr(torch, "compile", lambda model, mode, **_: modes.append(mode) or model)
    for device in ("cuda", "cpu"):
        compile_model(torch.nn.Linear(2, 2), True, torch.device(device), 1, lambda module: None)
    assert modes == ["reduce-overhead", None]
    assert capsys.readouterr().err.count("compiling") >= 2
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(CACHE / "inductor")  # where the next run finds it


def test_short_runs_on_a_cpu_are_not_compiled() -> None:
    model = torch.nn.Linear(2, 2)
    for wanted, steps in ((False, 10**6), ("auto", 10)):
        assert compile_model(model, wanted, torch.device("cpu"), steps, lambda module: None) is model


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_run_gives_the_same(
    run_yaml: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    """Running Dynamo's graphs op by op asks the same of the trainer as generating code, which takes long."""
    compiles, traced = torch.compile, CompileCounterWithBackend(backend)
    monkeypatch.setattr(torch, "compile", lambda model, **options: compiles(model, backend=traced, **options))
    options = [
        "training.epochs=1",
        "training.windows_per_epoch=40",
        "model={name: mlp-pointwise, width: 8, layers: 1}",
    ]
    plain, _ = train(*setup(run_yaml, *options, "training.compile=false"))
    assert not traced.op_count
    compiled, _ = train(*setup(run_yaml, *options, "training.compile=true", "name=compiled"))
    assert traced.op_count
    assert "not compiled" not in capsys.readouterr().err
    for name, value in weights(plain).items():
        torch.testing.assert_close(value, weights(compiled)[name], rtol=1e-3, atol=1e-5)


def test_batch_too_small_to_share(run_yaml: Path) -> None:
    with pytest.raises(SSTCastError, match=r"batch_size: must be at least devices x accumulate"):
        load_config(run_yaml, ["training.batch_size=3", "training.accumulate=4"])
    with pytest.raises(SSTCastError, match=r"windows_per_epoch: must be at least devices"):
        load_config(run_yaml, ["training.windows_per_epoch=1", "training.devices=2"])
