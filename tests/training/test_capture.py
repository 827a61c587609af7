"""When a step is captured and what is replayed, with stand-ins for the streams and graphs of a GPU."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from logged import logged
from torch import Tensor

from sstcast.training.capture import WARM_UP_STEPS, CapturedStep


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a captured step, and the calls of its step: the indices and the rate."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda of: nullcontext())

    def make(fails: bool) -> tuple[CapturedStep, list[tuple[list[int], float]]]:
        calls: list[tuple[list[int], float]] = []
        optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=9.0)

        def step(index: Tensor) -> Tensor:
            rate = optimizer.param_groups[0]["lr"]
            calls.append((index.tolist(), float(rate)))
            return index.sum() * rate

        @contextmanager
        def graph(of: object, stream: object) -> Any:
            if fails:
                raise RuntimeError("no room\nand much more")
            yield

        def replay() -> None:
            captured.result.copy_(captured.index.sum() * captured.rate)

        captured = CapturedStep(step, optimizer)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=replay))
        monkeypatch.setattr(torch.cuda, "graph", graph)
        return captured, calls

    return make


def run(captured: CapturedStep) -> list[float]:
    results = [captured(torch.tensor([number, 1]), 0.5**number) for number in range(WARM_UP_STEPS + 3)]
    return [float(of) for of in results]  # at the end, so that no result may be written over


EXPECTED = [(number + 1) * 0.5**number for number in range(WARM_UP_STEPS + 3)]


def test_after_the_warm_up_the_graph_takes_indices_and_rates(steps: Any) -> None:
    captured, calls = steps(fails=False)
    assert run(captured) == EXPECTED
    ordinary = [([number, 1], 0.5**number) for number in range(WARM_UP_STEPS)]
    assert calls == [*ordinary, ([WARM_UP_STEPS, 1], 0.0)]  # the last is the capture, which trains nothing
    assert captured.optimizer.param_groups[0]["capturable"] is True


def test_without_a_graph_all_steps_are_ordinary_and_a_line_says_so(steps: Any) -> None:
    captured, calls = steps(fails=True)
    with logged() as lines:
        assert run(captured) == EXPECTED
    assert lines == ["not captured: RuntimeError: no room; steps run without a CUDA graph"]
    assert calls == [([number, 1], 0.5**number) for number in range(WARM_UP_STEPS + 3)]
    assert captured.optimizer.param_groups[0]["capturable"] is False
