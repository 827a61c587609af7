"""`metrics.json` and its like, sealed: what was written is read again whole, or made anew."""

import hashlib
import json
from pathlib import Path
from typing import Any

from sstcast.files import atomic
from sstcast.scores.metrics import METRICS
from sstcast.scores.tables import DEGREES, MODEL

SEAL = "seal"  # SHA-256 of all else in the JSON and of the tables it follows from


def write_metrics(path: Path, metrics: dict[str, Any], scores: Path) -> dict[str, Any]:
    """Write `metrics` with a seal on them and on the file `scores`; return them with it."""
    sealed = metrics | {SEAL: _seal(metrics, scores)}
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(sealed, indent=2) + "\n")
    return sealed


def read_sealed(path: Path, scores: Path) -> dict[str, Any] | None:
    """Return what `write_metrics` wrote; None if it, or the file `scores`, is not what it was then."""
    try:
        metrics: dict[str, Any] = json.loads(path.read_bytes())
        return metrics if metrics[SEAL] == _seal(metrics, scores) else None
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def read_metrics(path: Path, scores: Path) -> dict[str, Any] | None:
    """Return a run's sealed metrics, as `read_sealed` does; None, too, if a metric has been added since."""
    metrics = read_sealed(path, scores)
    try:
        complete = metrics is not None and METRICS.keys() <= metrics["scores"][MODEL][DEGREES].keys()
        return metrics if complete else None
    except (TypeError, LookupError, AttributeError):
        return None


def _seal(metrics: dict[str, Any], scores: Path) -> str:
    rest = {key: value for key, value in metrics.items() if key != SEAL}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    with scores.open("rb") as file:  # of a large region it may not fit in memory
        while part := file.read(2**20):
            digest.update(part)
    return digest.hexdigest()
