"""The verb `train`: fit a model, keep the best, survive an interruption."""

import csv
import math
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sstcast.config import RunConfig
from sstcast.errors import SSTCastError
from sstcast.files import atomic
from sstcast.models import build_forecaster
from sstcast.models.base import ForecastModel
from sstcast.ocean.windows import Batch, Windows
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint, load_weights, save_checkpoint
from sstcast.training.interrupt import StopRequest
from sstcast.training.progress import Progress


@dataclass
class State:
    """Where training stands; everything in it is plain, so it goes into a checkpoint as it is."""

    epoch: int = 0
    step: int = 0  # steps done in this epoch
    loss: float = 0.0  # their summed loss
    best: float = math.inf
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)


class Interrupted(Exception):
    """Training stopped on a signal after saving; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


def train(config: RunConfig, windows: dict[str, Windows]) -> tuple[Run, bool]:
    """Fit `config.model` to `windows["train"]`, selecting by the error on `windows["validation"]`.

    Returns the run and whether there was anything to do. A run that was interrupted goes on where it
    stopped: on a CPU to the same weights, bit by bit, that an undisturbed run ends with.

    Raises SSTCastError if the run's folder holds another configuration or the device is not there, and
    Interrupted after Ctrl-C or SIGTERM, when `checkpoints/` holds all that was learnt.
    """
    device = choose_device(config.training.device)
    torch.manual_seed(config.training.seed)
    model = forecaster(config, windows["train"]).to(device)
    run = Run.create(config)
    trainer = Trainer(run, config, model, {name: w.to(device) for name, w in windows.items()})
    if run.last.exists():
        trainer.load()
    if trainer.finished:
        return run, False
    with StopRequest() as stop, Progress(trainer.steps * config.training.epochs) as progress:
        trainer.fit(stop, progress)
    return run, True


def forecaster(config: RunConfig, windows: Windows) -> ForecastModel:
    """Build the configured forecaster for tiles like those of `windows`."""
    return build_forecaster(
        config.model.name,
        history=windows.history,
        horizon=windows.horizon,
        shape=windows.shape,
        **config.model.options,
    )


def masked_mse(forecast: Tensor, batch: Batch) -> Tensor:
    """Mean squared error over ocean nodes and leads."""
    error = (forecast - batch.target).masked_fill(~batch.ocean.unsqueeze(-1), 0)
    return error.square().sum() / (batch.ocean.sum() * forecast.shape[-1])


@torch.no_grad()
def validation_mse(model: nn.Module, windows: Windows, batch_size: int) -> float:
    """Mean squared error over all windows, ocean nodes and leads: each element counts once."""
    model.eval()
    total = count = 0.0
    for index in torch.arange(len(windows), device=windows.values.device).split(batch_size):
        batch = windows.batch(index)
        elements = int(batch.ocean.sum()) * windows.horizon
        total += float(masked_mse(model(batch.history, batch.graph), batch)) * elements
        count += elements
    return total / count


def choose_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise SSTCastError(f"training.device: {name!r} is not available here; use auto or cpu") from error


class Trainer:
    """The loop over epochs and steps, and what it takes to leave and re-enter it."""

    def __init__(self, run: Run, config: RunConfig, model: ForecastModel, windows: dict[str, Windows]) -> None:
        self.run, self.config, self.model, self.windows = run, config, model, windows
        self.options = config.training
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.options.learning_rate)
        self.state = State()
        drawn = min(self.options.windows_per_epoch or len(windows["train"]), len(windows["train"]))
        self.steps = math.ceil(drawn / self.options.batch_size)
        self.drawn = drawn

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or patience ran out."""
        waited = self.state.epoch - 1 - self.state.best_epoch
        out_of_patience = self.options.patience is not None and waited >= self.options.patience
        return self.state.epoch >= self.options.epochs or (self.state.epoch > 0 and out_of_patience)

    def fit(self, stop: StopRequest, progress: Progress) -> None:
        """Train until finished or asked to stop."""
        while not self.finished:
            started = time.monotonic()
            self._epoch(stop, progress)
            self._close_epoch(time.monotonic() - started)
            progress.epoch(self.state.history[-1])

    def load(self) -> None:
        """Take up where `last.pt` stands."""
        saved = load_checkpoint(self.run.last)
        load_weights(self.model, saved, self.run.last)
        self.optimizer.load_state_dict(saved["optimizer"])
        self.state = State(**saved["state"])
        torch.set_rng_state(saved["rng"])

    def save(self) -> None:
        """Write `last.pt`."""
        save_checkpoint(
            self.run.last,
            self.config,
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            state=vars(self.state),
            rng=torch.get_rng_state(),
        )

    def _epoch(self, stop: StopRequest, progress: Progress) -> None:
        self.model.train()
        batches = self._order().split(self.options.batch_size)
        for index in batches[self.state.step :]:
            batch = self.windows["train"].batch(index)
            loss = masked_mse(self.model(batch.history, batch.graph), batch)
            self.optimizer.zero_grad()
            (loss + self.model.auxiliary_loss()).backward()
            self.optimizer.step()
            self.state.step += 1
            self.state.loss += loss.item()
            progress.step(self.state.epoch * self.steps + self.state.step, self.state.loss / self.state.step)
            if stop.signal is not None:
                self._leave(stop.signal)

    def _order(self) -> Tensor:
        """Draw this epoch's windows: a function of seed and epoch alone, so a resumed epoch is the same."""
        generator = torch.Generator().manual_seed(hash((self.options.seed, self.state.epoch)) % 2**63)
        order = torch.randperm(len(self.windows["train"]), generator=generator)[: self.drawn]
        return order.to(self.windows["train"].values.device)

    def _close_epoch(self, seconds: float) -> None:
        state = self.state
        error = validation_mse(self.model, self.windows["validation"], 4 * self.options.batch_size)
        row = {
            "epoch": state.epoch,
            "train_mse": state.loss / self.steps,
            "validation_mse": error,
            "seconds": seconds,
        }
        state.history.append(row)
        if error < state.best:
            state.best, state.best_epoch = error, state.epoch
            self._save_best()
        state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
        self.save()
        with atomic(self.run.history) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, row.keys())
            writer.writeheader()
            writer.writerows(state.history)

    def _save_best(self) -> None:
        save_checkpoint(self.run.best, self.config, model=self.model.state_dict(), epoch=self.state.epoch)

    def _leave(self, number: int) -> None:
        if not self.run.best.exists():  # interrupted in the first epoch: better these weights than none
            self._save_best()
        self.save()
        raise Interrupted(number)
