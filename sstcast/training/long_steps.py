"""Stops within a step of training that takes long, and tells how far it is."""

import time
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from sstcast.log import LOG
from sstcast.stopping import StopRequest

SHORT = 1.0  # seconds; after a shorter step, layers are not watched any more
TOLD_EVERY = 10.0  # seconds


class StepDropped(Exception):
    """A signal came within a step."""


class LayerWatch:
    """Looks at a stop request after each layer of `models`, forward and backward, until a step is short.

    Layers are modules without children. Inside the `with` block, they raise StepDropped after a signal. The first
    of the models is trained. `dropped` gives it the buffers from before the step.
    """

    def __init__(self, models: Iterable[nn.Module], stop: StopRequest, label: str) -> None:
        self.models, self.stop, self.label = list(models), stop, label
        self.handles: list[Any] = []

    def __enter__(self) -> "LayerWatch":
        layers = (layer for model in self.models for layer in model.modules() if not [*layer.children()])
        self.handles = [layer.register_forward_hook(self._forward) for layer in layers]
        self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def begin(self) -> None:
        """Begin a step."""
        if self.handles:
            self.started = self.told = time.monotonic()
            self.forward_count = self.backward_count = 0
            self.buffers = [buffer.clone() for buffer in self.models[0].buffers()]

    def end(self, done: int, left: int) -> None:
        """End step number `done`, after which `left` are left. After the first, tell how long they take."""
        if not self.handles:
            return
        seconds = time.monotonic() - self.started
        if done == 1 and seconds >= TOLD_EVERY:
            minutes = f"about {left * seconds / 60:.0f} minutes for the {left:,} left"
            LOG.info(f"{self.label}: a step takes {seconds:.0f} s, {minutes}")
        if seconds < SHORT:
            self.__exit__()

    def dropped(self) -> None:
        """Undo what a step has done to the buffers."""
        for buffer, before in zip(self.models[0].buffers(), self.buffers, strict=True):
            buffer.copy_(before)

    def _forward(self, layer: nn.Module, inputs: Any, output: Any) -> None:
        self.forward_count += 1
        self._look()
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(self._backward)

    def _backward(self, gradient: Tensor) -> None:
        self.backward_count += 1
        self._look()

    def _look(self) -> None:
        if self.stop.signal:
            raise StepDropped
        if (now := time.monotonic()) - self.told >= TOLD_EVERY:
            self.told = now
            counts = f"{self.forward_count} layers forward, {self.backward_count} backward"
            LOG.info(f"{self.label}: {counts}, {now - self.started:.0f} s")
