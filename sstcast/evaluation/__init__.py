"""Moved to `sstcast.scores` and `sstcast.pages`; what imports `sstcast.evaluation.MODULE`, as in 0.1, finds it
there.
"""

from pathlib import Path

__path__ = [str(Path(__file__).parents[1] / room) for room in ("scores", "pages")]
