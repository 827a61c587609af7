"""Ctrl-C and SIGTERM as a request to stop after the step at hand."""

import signal
from types import FrameType, TracebackType


class Interrupted(Exception):
    """Training stopped on a signal after saving; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class StopRequest:
    """Within the `with` block the first signal only sets `signal`; after it, Ctrl-C interrupts at once."""

    def __enter__(self) -> "StopRequest":
        self.signal: int | None = None
        self._previous = {s: signal.signal(s, self._on_signal) for s in (signal.SIGINT, signal.SIGTERM)}
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
