"""For code written for 0.1: `sstcast.evaluation.MODULE` finds modules of `sstcast.scores` and `sstcast.pages`."""

from pathlib import Path

__path__ = [str(Path(__file__).parents[1] / room) for room in ("scores", "pages")]
