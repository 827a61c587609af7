"""`metrics.json` and its like, sealed: what was written is read again whole, or made anew."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sstcast.artefacts import atomic
from sstcast.errors import SSTCastError
from sstcast.names import DEGREES, MODEL
from sstcast.runs import Run
from sstcast.scores.metrics import METRICS

LAYOUT = 6  # of metrics.json and scores.nc
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


@dataclass(frozen=True)
class Scored:
    """The folder of the scores of a file."""

    folder: Path

    @property
    def metrics(self) -> Path:
        """The scores."""
        return self.folder / "metrics.json"

    @property
    def tables(self) -> Path:
        """The tables that they follow from."""
        return self.folder / "scores.nc"

    @property
    def report(self) -> Path:
        """The page that shows it all."""
        return self.folder / "report.html"

    @property
    def exists(self) -> bool:
        """Whether the folder looks like one; a run's has a configuration."""
        return self.metrics.exists() and self.tables.exists() and not Run(self.folder).config_file.exists()

    def read(self) -> dict[str, Any]:
        """Return the metrics; raise SSTCastError if they are damaged, or of another version."""
        metrics = read_metrics(self.metrics, self.tables)
        if metrics is None or metrics.get("layout") != LAYOUT or "recipe" not in metrics:
            raise SSTCastError(f"{self.metrics}: damaged or of another version; run `sstcast score` again")
        return metrics
