"""The score files `metrics.json` and `scores.nc`, which runs, hindcasts and scored files share."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import xarray as xr

from sstcast._version import __version__
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.names import BASELINES, DEGREES
from sstcast.ocean.filled_days import MOST_FILLED
from sstcast.runs import Run
from sstcast.scores.metrics import METRICS
from sstcast.scores.system_records import climatologies, models_of, run_itself
from sstcast.storage.artefacts import (
    RECIPE,
    as_text,
    change_times,
    check_intact,
    check_own,
    digest,
    is_up_to_date,
    note_source,
    noted_source,
    write_json,
)
from sstcast.storage.cf import describe, references
from sstcast.storage.dataset_files import write
from sstcast.storage.paths import read_regular
from sstcast.storage.stores import open_netcdf
from sstcast.types import Scores

LAYOUT = 15  # version of the layout of metrics.json and scores.nc
SCORES_SUMMARY = "Errors, distributions, heatwaves, box means and significance of forecasts and of baselines"
VALUES = {  # of all scores, and their mappings
    *("kind", "source", "region", "protocol", "history", "horizon", "test", "forecasts", "every", "block_days"),
    *("ocean_cells", "notes", "reference", "climate"),
}
MAPPINGS = ("systems", "scores", "probabilities", "heatwaves", "indices", "ensemble", "ratios")
VERBS = {"run": "evaluate", "file": "score", "hindcast": "hindcast"}  # kinds of scores, and the commands for them


def _is_whole(metrics: Any) -> TypeGuard[Scores]:
    """Return whether the contents of `metrics.json` have all entries, and mappings where these belong."""
    if not (isinstance(metrics, dict) and metrics.keys() >= VALUES):
        return False
    mappings = [metrics.get(key) for key in MAPPINGS]
    return all(isinstance(of, dict) for of in mappings) and metrics["scores"].keys() <= metrics["systems"].keys()


@dataclass(frozen=True)
class ScoreFiles:
    """A folder with the scores of a run, a hindcast or a file of forecasts."""

    folder: Path

    @property
    def metrics(self) -> Path:
        """The path of the scores."""
        return self.folder / "metrics.json"

    @property
    def tables(self) -> Path:
        """The path of the statistics from which the scores are computed."""
        return self.folder / "scores.nc"

    @property
    def report(self) -> Path:
        """The path of the report."""
        return self.folder / "report.html"

    def known(self, recipe: dict[str, Any]) -> dict[str, Any] | None:
        """Return the scores if they were made from this `recipe`, else None."""
        if all(is_up_to_date(path, recipe) for path in (self.metrics, self.tables)):
            metrics = json.loads(self.metrics.read_bytes())
            if _is_whole(metrics):
                return metrics
            LOG.warning(f"{self.metrics}: is damaged; scored again")
        return None

    def are_of(self, path: Path, scored: str = "") -> bool:
        """Return whether a file is the one that was scored. Its content is read only if its times have changed.

        `scored` is the digest of the file that was scored, by default the one that is noted. Without a note, as in
        a copy, scores do not tell, and are taken to be of the file.
        """
        times, (noted_times, noted_content) = change_times(path), noted_source(self.metrics)
        if times == noted_times:
            return True
        if (scored or noted_content) not in ("", content := digest(path)):
            return False
        note_source(self.metrics, times, content)
        return True

    def check_own(self) -> None:
        """Raise SSTCastError if the folder holds files of these names that sstcast did not write."""
        for path in (self.metrics, self.tables, self.report):
            check_own(path, "rename it, or name another --out")

    def read(self) -> dict[str, Any]:
        """Read the scores. Raises SSTCastError if they are missing, damaged, edited or from another version."""
        try:
            metrics: dict[str, Any] = json.loads(read_regular(self.metrics))
            current = _is_whole(metrics) and all(metrics[RECIPE][key] == of for key, of in _form().items())
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            current = False
        if not current:
            raise SSTCastError(f"{self.metrics}: missing, damaged or from another version; {self.remedy}")
        check_intact(self.metrics, self.remedy)
        return metrics

    def open(self) -> xr.Dataset:
        """Open the statistics lazily. Raises SSTCastError if they are damaged or have changed."""
        check_intact(self.tables, self.remedy)
        return open_netcdf(self.tables, f"delete it; {self.remedy}", chunked=True)

    def write(
        self,
        tables: xr.Dataset,
        metrics: dict[str, Any],
        recipe: dict[str, Any],
        protocol: str = "",
        **attributes: str,
    ) -> dict[str, Any]:
        """Write the statistics and the scores, both with their recipe, and return the scores.

        `metrics` must contain `kind` and `source`. `attributes` are added to the statistics.
        """
        dataset = describe(
            tables,
            summary=SCORES_SUMMARY,
            source=metrics["source"],
            history=f"sstcast {__version__} {VERBS[metrics['kind']]}",
            **references(metrics["source"], protocol),
            **attributes,
            **{RECIPE: as_text(recipe)},
        )
        write(dataset, self.tables)
        contents = {RECIPE: recipe, **metrics}
        write_json(self.metrics, contents)
        return contents

    @property
    def remedy(self) -> str:
        """What makes the scores again, in the words of an error."""
        if Run(self.folder).config_file.exists():
            return f"run `sstcast evaluate {self.folder}`"
        return "run the same `sstcast score` or `sstcast hindcast` again"


def errors_of(metrics: Mapping[str, Any], system: str) -> dict[str, Any]:
    """Return the errors in degC of a `system` in the contents `metrics` of `metrics.json`, overall and by part."""
    return metrics["scores"][system][DEGREES]


def comparison(metrics: Mapping[str, Any], loss: str, system: str, reference: str) -> dict[str, Any]:
    """Return the comparison of a `system` with a `reference` in a `loss` such as `mse`, or {} if there is none.

    `metrics` are the contents of `metrics.json`. `LossComparison.compare` describes the comparison.
    """
    return metrics["ratios"].get(loss, {}).get(system, {}).get(reference, {})


def part_of(scores: Mapping[str, Any], split: str, part: Any) -> dict[str, Any]:
    """Return the scores of one lead, week, season or fold from those of a system, or from a comparison.

    `split` is the key of the kind of part, such as `by_lead`, and `part` a position or name in it. Without a
    `split`, these are the scores over all dates and leads.
    """
    return {key: values[part] for key, values in scores.get(split, {}).items()} if split else dict(scores)


def best_climatology(metrics: Mapping[str, Any]) -> str:
    """Return the climatology with the lowest mean squared error, or the reference if none was scored."""
    climates = climatologies(metrics["systems"], run_itself(metrics))
    names = [name for name in climates if name in metrics["scores"]]
    return min(names, key=lambda name: errors_of(metrics, name)["mse"], default=str(metrics["reference"]))


def best_of(metrics: Mapping[str, Any], models: Collection[str]) -> str | None:
    """Return the baseline or system of a hindcast with the lowest mean squared error, among some `models`.

    The first system, which is described, is none of them. Returns None if none was scored.
    """
    first, itself = next(iter(metrics["systems"])), run_itself(metrics)
    keys = [
        key for key, model in models_of(metrics["systems"], itself).items() if model in models and key != first
    ]
    scored = [key for key in keys if key in metrics["scores"]]
    return min(scored, key=lambda name: errors_of(metrics, name)["mse"], default=None)


def skill_of(compared: Mapping[str, Any]) -> float | None:
    """Return the skill of a comparison, 1 minus its ratio, or None without one."""
    return None if compared.get("ratio") is None else round(1 - compared["ratio"], 6)


def recipe_of_scores(data: DataConfig) -> dict[str, Any]:
    """Return the part of the recipe that all scores share: layout, metrics, baselines and the rule of dates."""
    return _form() | {"baselines": BASELINES} | ({"most_filled": MOST_FILLED} if data.gaps else {})


def _form() -> dict[str, Any]:
    return {"layout": LAYOUT, "metrics": sorted(METRICS)}
