"""Stopping on signals, so that work is saved before the process ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


@contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """Inside the `with` block, the first SIGTERM raises Terminated in the main thread, unless it is ignored.

    Later ones are ignored, as schedulers repeat them, until the process ends.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class StopRequest:
    """Inside the `with` block, the first SIGINT or SIGTERM only sets `signal`. A later Ctrl-C interrupts at once.

    Only the main thread receives signals. In other threads, such as a cluster's workers, the block has no effect.
    """

    def __enter__(self) -> "StopRequest":
        self.signal: int | None = None
        signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._previous = {s: signal.signal(s, self._on_signal) for s in signals}
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:  # schedulers repeat SIGTERM, which must not interrupt saving
            raise KeyboardInterrupt

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
