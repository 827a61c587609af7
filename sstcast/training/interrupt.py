"""Treats Ctrl-C and SIGTERM as a request to stop after the current step."""

import signal
import threading
from types import FrameType, TracebackType


class Interrupted(Exception):
    """Training was stopped by a signal and saved; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class StopRequest:
    """Inside the `with` block the first signal only sets `signal`; a later Ctrl-C interrupts at once.

    Only the main thread receives signals: in another thread, such as a worker of a cluster, this does nothing.
    """

    def __enter__(self) -> "StopRequest":
        self.signal: int | None = None
        heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._previous = {s: signal.signal(s, self._on_signal) for s in heard}
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:  # schedulers repeat SIGTERM, which must not interrupt saving
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
