"""Ctrl-C and SIGTERM as a request to stop after the step at hand."""

import signal
import threading
from types import FrameType, TracebackType


class Interrupted(Exception):
    """Training stopped on a signal after saving; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class StopRequest:
    """Within the `with` block the first signal only sets `signal`; after it, Ctrl-C interrupts at once.

    Signals reach the main thread alone: in another one, such as a cluster's worker has, nothing is asked.
    """

    def __enter__(self) -> "StopRequest":
        self.signal: int | None = None
        heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._previous = {s: signal.signal(s, self._on_signal) for s in heard}
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:  # schedulers repeat SIGTERM, which must not break off the saving
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
