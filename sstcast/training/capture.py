"""One CUDA graph for a whole training step, which then costs the host a few launches instead of hundreds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from sstcast.log import LOG

WARM_UP_STEPS = 3  # before the capture, in which libraries choose kernels and allocate their workspaces


class CapturedStep:
    """A training step that runs as a CUDA graph after `WARM_UP_STEPS` ordinary steps.

    The step reads the samples' indices and the learning rate from fixed tensors. All that it allocates, gradients
    included, stays in the graph's memory. The generator of the device is registered with the graph, so a seed set
    before a step decides its random numbers.

    If the capture fails, one line says so, and all further steps are ordinary.

    Args:
        step: trains one step on the samples `index [B]`, and returns values on the device. Each call does the same
            operations on tensors of the same shapes, without the host.
        optimizer: the Adam or AdamW that `step` uses.
    """

    def __init__(self, step: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.step, self.optimizer = step, optimizer
        self.stream = torch.cuda.Stream()
        self.done, self.failed = 0, False
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, index: Tensor, rate: float) -> Tensor:
        """Train one step and return what `step` returns."""
        if self.graph is None and not self.failed and self.done == WARM_UP_STEPS:
            self._capture(index)
        if self.graph is not None:
            self.index.copy_(index)
            self.rate.fill_(rate)
            self.graph.replay()
            return self.result.clone()
        self.done += 1
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.aside():
            return self.step(index)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Run on the stream of the capture, where the gradients' nodes have to be made."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield
        torch.cuda.current_stream().wait_stream(self.stream)

    def _capture(self, index: Tensor) -> None:
        self.index, self.rate = index.clone(), torch.zeros((), device=index.device)
        for group in self.optimizer.param_groups:
            group |= {"lr": self.rate, "capturable": True}
        self.optimizer.zero_grad(set_to_none=True)  # so that the gradients lie in the graph's memory
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.result = self.step(self.index)
            self.graph = graph
        except Exception as error:
            self.failed = True
            self.optimizer.zero_grad(set_to_none=True)
            for group in self.optimizer.param_groups:
                group["capturable"] = False
            reason = str(error).strip().partition("\n")[0]
            LOG.warning(f"not captured: {type(error).__name__}: {reason}; steps run without a CUDA graph")
