"""The training loop over epochs and steps, which can be interrupted and resumed."""

import csv
import math
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import field
from pathlib import Path
from typing import Any, NoReturn

import torch
from lightning_fabric import Fabric
from pydantic import BaseModel
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sstcast.config import TrainingConfig
from sstcast.errors import Interrupted, SSTCastError, reading
from sstcast.progress import TrainingProgress, open_board
from sstcast.runs import Run
from sstcast.stopping import StopRequest
from sstcast.storage.artefacts import atomic
from sstcast.storage.memory import trim
from sstcast.training.capture import CapturedStep
from sstcast.training.checkpoint import (
    begin_stage,
    load_weights,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
    step_checkpoints,
)
from sstcast.training.devices import compile_model, peak_memory
from sstcast.training.long_steps import LayerWatch, StepDropped
from sstcast.training.task import Task, seed_of

STEPS_BETWEEN_READS = {"cuda": 32}  # reading a loss waits for the device
RISING_SHARE, FIRST_RATE_FACTOR, LAST_RATE_FACTOR = 0.3, 1 / 25, 1 / 25e4  # of the one-cycle schedule, as in torch
POINTS = 50  # of the training curve, each a mean over several steps
LEAST_WEIGHT = 1e-12  # of the elements of a step; in place of 0, where no label is known
REMEDY = "train under another name with a lower training.learning_rate or with training.clip"


@dataclass
class State:
    """The progress of a training in plain values, as a checkpoint holds it.

    Raises ValueError if a checkpoint holds values of other types.
    """

    epoch: int = 0
    step: int = 0  # steps done in this epoch
    loss: float = 0.0  # summed over these steps
    weight: float = 0.0  # number of elements in this sum
    seconds: float = 0.0
    peak_memory: int = 0  # bytes, 0 if no epoch has measured it
    best: float = math.inf  # the lowest score so far
    best_loss: float = math.inf  # decides between equal scores
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)
    curve: list[list[float]] = field(default_factory=list)  # points: last step, summed loss, weight

    @property
    def mean_loss(self) -> float:
        """The loss per element over the steps done in this epoch."""
        return self.loss / max(self.weight, LEAST_WEIGHT)

    def add(self, loss: float, weight: float, step: int, every: int) -> None:
        """Add the summed loss of step `step` of the training. Each point of the curve covers `every` steps."""
        self.loss += loss
        self.weight += weight
        if not self.curve or self.curve[-1][0] % every == 0:
            self.curve.append([0, 0.0, 0.0])
        _, loss_sum, weight_sum = self.curve[-1]
        self.curve[-1] = [step, loss_sum + loss, weight_sum + weight]

    def close_epoch(self, learning_rate: float, scores: dict[str, float], better: bool) -> None:
        """Add the epoch to the history and begin the next one."""
        row = {"epoch": self.epoch, "train_loss": self.mean_loss, "learning_rate": learning_rate}
        row |= {f"validation_{name}": value for name, value in scores.items()}
        self.history.append(row | {"best": better, "seconds": self.seconds})
        self.epoch, self.step, self.loss, self.weight = self.epoch + 1, 0, 0.0, 0.0

    def write_history(self, path: Path) -> None:
        """Write a row for each finished epoch, if there is any."""
        if not self.history:
            return
        with atomic(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.history[-1].keys())
            writer.writeheader()
            writer.writerows(self.history)

    def write_curve(self, path: Path, steps: int) -> None:
        """Write the mean loss at every point of the curve, given the number of `steps` in an epoch."""
        rows = [(int(step), step / steps, loss / max(weight, LEAST_WEIGHT)) for step, loss, weight in self.curve]
        with atomic(path) as temporary, temporary.open("w", newline="") as file:
            csv.writer(file).writerows([("step", "epoch", "train_loss"), *rows])


class Trainer:
    """Trains a model on a task and writes `history.csv`, `curve.csv` and `checkpoints/` to the folder of the run.

    All random numbers depend only on seed, epoch, step and device, so no generator state is saved. On a CPU, a
    resumed run ends with the same weights, bit for bit, as an uninterrupted one.

    Training resumes from the newest checkpoint of `run`. The checkpoints store `config`. The model has a method
    `auxiliary_loss()`. `stage` names a stage of a longer training. Training starts from the best weights of the
    run `previous`, if given, and from the optimiser state saved with them. Only weights with a better score
    replace them.

    Raises SSTCastError if the checkpoints in the folder are damaged or belong to another model.
    """

    def __init__(
        self,
        run: Run,
        config: BaseModel,
        options: TrainingConfig,
        model: nn.Module,
        task: Task,
        fabric: Fabric,
        stage: str | None = None,
        previous: Run | None = None,
    ) -> None:
        self.stage = stage
        self.run, self.config, self.options, self.task, self.fabric = run, config, options, task, fabric
        self.single = fabric.world_size == 1
        self.auxiliary_loss: Callable[[], Tensor] = model.auxiliary_loss  # type: ignore[assignment]
        self.model = model.to(fabric.device)
        self.captured: CapturedStep | None = None
        self.ema = None
        if options.ema is not None:
            self.ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(options.ema))
        self.optimizer = build_optimizer(model.parameters(), options)
        self.state = State()
        self.steps = len(task.order(options.seed, 0))
        self.saved_at = time.monotonic()
        self._load(previous)
        self.rate = float(self.optimizer.param_groups[0]["lr"])  # of the last step

    @property
    def finished(self) -> bool:
        """Whether all epochs are done or the patience is used up."""
        waited = self.state.epoch - 1 - self.state.best_epoch
        out_of_patience = self.options.patience is not None and waited >= self.options.patience
        return self.state.epoch >= self.options.epochs or (self.state.epoch > 0 and out_of_patience)

    def fit(self) -> None:
        """Train to the end.

        Raises Interrupted after Ctrl-C or SIGTERM, once a checkpoint is saved, and SSTCastError if the loss is not
        finite.
        """
        total = self.steps * self.options.epochs
        if self.single and self.fabric.device.type == "cuda" and self._repeats():
            self.captured = CapturedStep(self._train, self.optimizer)
        module = compile_model(
            self.model,
            self.options.compile,
            self.fabric.device,
            total,
            self._attempt,
            graphs=self.captured is None,
        )
        # DistributedDataParallel wraps the model, and the compiler wraps both.
        self.module, self.stepper = self.fabric.setup(module, self.optimizer, _reapply_compile=not self.single)
        first = self.fabric.is_global_zero
        if self.fabric.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.fabric.device)
        board = open_board(self.run.folder / "tensorboard", self.state.epoch) if first else None
        plain = module is self.model and self.single and self.captured is None
        models = [self.model, *([] if self.ema is None else [self.ema.module])] if plain else []
        with (
            StopRequest() as stop,
            TrainingProgress(total, self._done, first, board) as progress,
            LayerWatch(models, stop, f"{self.run.folder}") as watch,
        ):
            while not self.finished:
                try:
                    self._epoch(stop, progress, watch)
                    watch.begin()
                    self._close_epoch()
                except StepDropped:
                    self._save_and_leave(stop.signal or signal.SIGTERM)
                progress.epoch(self.state.history[-1])
            self._save()
            if number := self._signal(stop):  # so that no further member of an ensemble starts
                self._leave(number)

    def _repeats(self) -> bool:
        """Return whether all steps are the same operations, so that one CUDA graph can be all of them.

        Adagrad's step takes the learning rate as a constant.
        """
        full = len(self.task.order(self.options.seed, 0)[0]) >= self.options.batch_size
        return self.task.static and full and self.options.optimizer != "adagrad"

    def _attempt(self, module: nn.Module) -> None:
        self._seed(step=0)
        with self.captured.aside() if self.captured is not None else nullcontext():
            batch = self.task.batch(self._parts(self.task.order(self.options.seed, 0)[0])[0])
            module.train()
            with self.fabric.autocast():
                loss = self.task.loss(module, batch)
            loss.backward()

    def _epoch(self, stop: StopRequest, progress: TrainingProgress, watch: LayerWatch) -> None:
        self.model.train()
        pending: list[tuple[Tensor, Tensor]] = []
        every = STEPS_BETWEEN_READS.get(self.fabric.device.type, 1)
        batches = self.task.order(self.options.seed, self.state.epoch)
        started = time.monotonic()
        for index in batches[self.state.step :]:
            watch.begin()
            try:
                pending.append((index, self._step(index)))
            except StepDropped:
                watch.dropped()
                self.stepper.zero_grad()
                raise
            self.state.step += 1
            watch.end(self._done, self.steps * self.options.epochs - self._done)
            if self.state.step % 4 == 1:  # every step would cost time
                trim()
            due = len(pending) >= every or self.state.step == len(batches)
            if not due and not (self.single and (stop.signal or self._checkpoint_due())):
                continue  # several devices must read at the same step, or one would wait forever
            self._read(pending)
            self.state.seconds += time.monotonic() - started
            started = time.monotonic()
            progress.step(self._done, self.state.mean_loss)
            if number := self._signal(stop):
                self._save_and_leave(number)
            if self._checkpoint_due():
                self._save()

    def _step(self, index: Tensor) -> Tensor:
        """Train one step. Return its summed loss and the number of elements in it, still on the device."""
        self._seed(self.state.step)
        self.rate = learning_rate(self._done, self.steps * self.options.epochs, self.options)
        if self.captured is not None:
            return self.captured(index, self.rate)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        return self._train(index)

    def _train(self, index: Tensor) -> Tensor:
        """Do the operations of a step. On a device they read nothing from the host."""
        batches = [self.task.batch(part) for part in self._parts(index)]
        counted = self.fabric.global_rank < len(index)
        weights = [
            torch.as_tensor(self.task.weight(b) if counted else 0, device=self.fabric.device).double()
            for b in batches
        ]
        total_weight = self._sum(torch.stack(weights).sum())
        total_loss = torch.zeros_like(total_weight)
        for i, (batch, weight) in enumerate(zip(batches, weights, strict=True)):
            with self.fabric.no_backward_sync(self.module, enabled=i + 1 < len(batches)):
                loss = self.task.loss(self.module, batch)
                if not counted:
                    loss = 0 * loss
                # Fabric averages gradients over devices, but each element of the step must count once.
                share = (self.fabric.world_size / total_weight.clamp(min=LEAST_WEIGHT)).to(loss.dtype)
                auxiliary = self.auxiliary_loss() * weight.to(loss.dtype)
                self.fabric.backward((loss + auxiliary) * share)
            total_loss += loss.detach().double()
        return torch.stack([self._update(self._sum(total_loss)), total_weight])

    def _update(self, loss: Tensor) -> Tensor:
        """Update the weights. Return the loss, or NaN if clipping finds a gradient that is not finite."""
        if self.options.clip is not None:
            loss = loss + 0 * nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.stepper.step()
        if self.ema is not None:
            self._average(self.ema)
        self.stepper.zero_grad()
        return loss

    @torch.no_grad()
    def _average(self, ema: AveragedModel) -> None:
        """Do what `ema.update_parameters` does, which reads its number of steps from the device."""
        assert self.options.ema is not None
        share = 1.0 if self._done == 0 else 1 - self.options.ema
        torch._foreach_lerp_([*ema.module.parameters()], [*self.model.parameters()], share)
        for averaged, current in zip(ema.module.buffers(), self.model.buffers(), strict=True):
            averaged.copy_(current)
        ema.n_averaged += 1

    def _read(self, pending: list[tuple[Tensor, Tensor]]) -> None:
        """Copy the losses of the last steps from the device and check that they are finite."""
        rows = torch.stack([row for _, row in pending]).tolist()
        for step, ((index, _), (loss, weight)) in enumerate(
            zip(pending, rows, strict=True), self.state.step - len(pending)
        ):
            if not math.isfinite(loss):
                raise SSTCastError(self._not_finite(step, index))
            global_step = self.state.epoch * self.steps + step + 1
            self.state.add(loss, weight, global_step, max(1, self.steps * self.options.epochs // POINTS))
        pending.clear()

    def _signal(self, stop: StopRequest) -> int | None:
        """Return the signal that any process has received, or None."""
        if self.single:
            return stop.signal
        signals = (signal.SIGINT, signal.SIGTERM)
        counts = self._sum(torch.tensor([float(stop.signal == s) for s in signals], device=self.fabric.device))
        return next((int(s) for s, count in zip(signals, counts.tolist(), strict=True) if count), None)

    def _save_and_leave(self, number: int) -> NoReturn:
        self._save()
        if not self.run.best.exists():  # in the first epoch, these weights are the best
            self._save_best()
        self._leave(number)

    def _leave(self, number: int) -> NoReturn:
        self.fabric.barrier()  # when a process ends, Fabric kills the first, which may still be saving
        raise Interrupted(number)

    def _not_finite(self, step: int, index: Tensor) -> str:
        paths = step_checkpoints(self.run.checkpoints)
        return (
            f"{self.run.folder}: the loss is not finite at epoch {self.state.epoch + 1}, step {step + 1}: "
            f"{self.task.describe(index)}; last good checkpoint: {paths[-1].name if paths else 'none'}; {REMEDY}"
        )

    def _close_epoch(self) -> None:
        state, started = self.state, time.monotonic()
        model = self.model if self.ema is None else self.ema.module
        model.eval()
        scores = self.fabric.broadcast(self.task.validate(model))  # one process judges when to stop
        state.seconds += time.monotonic() - started
        state.peak_memory = max(state.peak_memory, peak_memory(self.fabric.device))
        score = next(iter(scores.values())) * (1 if self.task.lower_is_better else -1)
        if not math.isfinite(score):
            raise SSTCastError(
                f"{self.run.folder}: the validation score is not finite after epoch {state.epoch + 1}: {REMEDY}"
            )
        # With few samples, scores are often equal. Then the lower loss decides, if the task returns one.
        loss = scores.get("loss", math.inf)
        better = (score, loss) < (state.best, state.best_loss)
        if better:
            state.best, state.best_loss, state.best_epoch = score, loss, state.epoch
            self._save_best()
        state.close_epoch(self.rate, scores, better)

    @property
    def _done(self) -> int:
        return self.state.epoch * self.steps + self.state.step

    def _parts(self, index: Tensor) -> list[Tensor]:
        """Return the samples of a step that belong to this device, in `accumulate` parts.

        A device without any gets the first one, which does not count there, because the others wait for its
        gradients.
        """
        samples = index[self.fabric.global_rank :: self.fabric.world_size]
        samples = samples if len(samples) else index[:1]
        return [part for part in samples.tensor_split(self.options.accumulate) if len(part)]

    def _seed(self, step: int) -> None:
        torch.manual_seed(seed_of(self.options.seed, self.state.epoch, step, self.fabric.global_rank))

    def _sum(self, value: Tensor) -> Tensor:
        if not self.single:
            torch.distributed.all_reduce(value)
        return value

    def _checkpoint_due(self) -> bool:
        if self.options.checkpoint_steps is not None:
            return self._done % self.options.checkpoint_steps == 0
        return time.monotonic() - self.saved_at >= 60 * self.options.checkpoint_minutes

    def _load(self, previous: Run | None) -> None:
        newest = newest_checkpoint(self.run.checkpoints, self.config)
        if newest is None:
            if previous is not None:
                self.fabric.barrier()  # the first process may still be saving the previous stage
                score_to_beat = begin_stage(self.model, self.optimizer, previous.best, self.config)
                self.state.best, self.state.best_loss = score_to_beat
                if self.fabric.is_global_zero:
                    with atomic(self.run.best) as temporary:
                        shutil.copyfile(previous.best, temporary)
            return
        path, checkpoint = newest
        load_weights(self.model, checkpoint, path)
        with reading(path, "delete it to resume from the previous one"):
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            if self.ema is not None:
                self.ema.load_state_dict(checkpoint["ema"])
            self.state = State(**checkpoint["state"])
            if "learnt" in checkpoint:
                self.task.learnt = checkpoint["learnt"]
        if self.fabric.is_global_zero:  # a kill may have come between the checkpoint and these files
            self.state.write_history(self.run.history)
            self.state.write_curve(self.run.curve, self.steps)

    def _save(self) -> None:
        """Write a checkpoint to resume from, delete the oldest, and update `history.csv` and `curve.csv`."""
        self.saved_at = time.monotonic()
        if not self.fabric.is_global_zero:
            return
        path = self.run.checkpoints / f"step-{self._done:09d}.pt"
        state: dict[str, Any] = {"model": self.model.state_dict(), "optimizer": self._optimizer_state()}
        state |= {"ema": None if self.ema is None else self.ema.state_dict(), "state": vars(self.state)}
        save_checkpoint(path, self.config, **state, **self._learnt())
        prune_checkpoints(path, self.options.keep)
        self.state.write_history(self.run.history)
        self.state.write_curve(self.run.curve, self.steps)

    def _optimizer_state(self) -> dict[str, Any]:
        """Return the state with plain values in place of those that a CUDA graph reads."""
        state = self.optimizer.state_dict()
        plain_values = {"lr": self.rate, "capturable": False}
        state["param_groups"] = [
            group | {name: value for name, value in plain_values.items() if name in group}
            for group in state["param_groups"]
        ]
        return state

    def _save_best(self) -> None:
        if self.fabric.is_global_zero:
            model = self.model if self.ema is None else self.ema.module
            state = {"model": model.state_dict(), "epoch": self.state.epoch, "stage": self.stage}
            if self.stage is not None:  # the next stage starts from it
                state |= {"optimizer": self._optimizer_state()}
                state |= {"score": [self.state.best, self.state.best_loss]}
            save_checkpoint(self.run.best, self.config, **state, **self._learnt())

    def _learnt(self) -> dict[str, Tensor]:
        return {} if self.task.learnt is None else {"learnt": self.task.learnt}


def build_optimizer(parameters: Iterable[nn.Parameter], options: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adagrad, Adam or AdamW. The weight decay of AdamW is decoupled from the gradient."""
    shared: dict[str, Any] = {
        "lr": options.learning_rate,
        "eps": options.eps,
        "weight_decay": options.weight_decay,
    }
    if options.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, **shared)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[options.optimizer]
    return kind(parameters, betas=options.betas, fused=True, **shared)


def learning_rate(step: int, steps: int, options: TrainingConfig) -> float:
    """Return the learning rate at `step` of `steps`. It has no state, so a resumed run uses the same rates."""
    if options.schedule == "one-cycle":
        top = RISING_SHARE * steps - 1
        if step <= top:
            return options.learning_rate * _anneal(FIRST_RATE_FACTOR, 1.0, step / top)
        return options.learning_rate * _anneal(1.0, LAST_RATE_FACTOR, (step - top) / (steps - 1 - top))
    if step < options.warmup:
        return options.learning_rate * (step + 1) / options.warmup
    if options.schedule == "constant":
        return options.learning_rate
    fraction = (step - options.warmup) / max(steps - options.warmup, 1)
    return options.learning_rate * (1 - fraction if options.schedule == "linear" else _anneal(1.0, 0.0, fraction))


def _anneal(start: float, end: float, fraction: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * fraction)) / 2
