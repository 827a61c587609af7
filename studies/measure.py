"""Seconds and bytes of a pass."""

import statistics
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

Pass = Callable[[], object]


def median_seconds(passes: Mapping[str, Pass], repeats: int) -> dict[str, float]:
    """Return the median time of each pass, in seconds, after one to warm up.

    Each round runs every pass once, so that whatever else the machine does falls on all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(repeats + 1):
        for name, run in passes.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def peak_bytes(run: Pass) -> int:
    """Return the most bytes that tensors made by `run` take at once; tensors from before do not count.

    Counted as tensors come and go, so the same on every machine; scratch inside a single kernel is not seen.
    """
    with _Allocations() as allocations:
        run()
    return allocations.peak


class _Allocations(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    """Follows the storage of every result from its making to its end."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        result = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, lambda t: self._follow(t.untyped_storage(), before), result)
        return result

    def _follow(self, storage: torch.UntypedStorage, before: set[int]) -> None:
        if storage.data_ptr() in before or storage in self.known:  # a view, or written in place
            return
        self.known.add(storage)
        size = storage.nbytes()
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._end, size)

    def _end(self, size: int) -> None:
        self.live -= size
