"""What is verified besides the forecasts of every cell: places, observations at points and warnings."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.places.places import OUTLINES, Places
from sstcast.places.point_observations import PointObservations
from sstcast.scores.score_files import ScoreFiles
from sstcast.storage.artefacts import read_recipe

Recipe = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a verification was asked for besides the forecasts of every cell.

    Attributes:
        places: areas besides the whole region.
        observations: observations at points, against which the systems are also verified.
        events: whether warnings of heatwaves are verified.
        above: temperatures in degC, above which days are verified.
        unread: the recipe of the observations of an earlier verification, which nobody has read yet.
    """

    places: Places | None = None
    observations: PointObservations | None = None
    events: bool = False
    above: tuple[float, ...] = ()
    unread: Recipe | None = None

    @classmethod
    def kept(cls, metrics: Path) -> "Asked":
        """Return what the scores in a `metrics.json` were asked for, or nothing if there are none."""
        recipe = read_recipe(metrics) or {}
        places = Places.from_geojson(json.dumps(recipe[OUTLINES])) if recipe.get(OUTLINES) else None
        above = tuple(recipe.get("above", ()))
        return cls(places, None, bool(recipe.get("events")), above, recipe.get("observations"))

    def or_else(self, kept: "Asked", folder: Path) -> "Asked":
        """Return this, with what is `kept` of the last verification in a folder where this asks for nothing.

        Places are the run's (see `run_places`). Logs what is kept.
        """
        kept = Asked(
            events=kept.events and not self.events,
            above=() if self.above else kept.above,
            unread=kept.unread if self.observations is None else None,
        )
        if kept.words:
            LOG.info(f"{folder}: also scores what its last evaluation was asked for: {kept.words}")
        return replace(self, events=self.events or kept.events, above=self.above or kept.above, unread=kept.unread)

    def current(self, scored: ScoreFiles) -> "Asked":
        """Read the observations of an earlier verification again if their file has changed since it was scored.

        A file that is gone, or can no longer be read, does not count as changed.
        """
        if self.unread is None or scored.are_of(Path(self.unread["file"]), self.unread["digest"]):
            return self
        with suppress(SSTCastError):
            return replace(self, observations=PointObservations.again(self.unread), unread=None)
        return self

    def read(self, folder: Path) -> "Asked":
        """Read the observations of an earlier verification again. Without them, warn, and leave them out."""
        if self.unread is None:
            return self
        try:
            return replace(self, observations=PointObservations.again(self.unread), unread=None)
        except SSTCastError as error:
            LOG.warning(f"{folder}: scored without the observations of the last evaluation: {error}")
            return replace(self, unread=None)

    @property
    def recipe(self) -> Recipe:
        """The part of a recipe that tells what was asked for."""
        observed = self.unread if self.observations is None else self.observations.recipe
        return {OUTLINES: None, **self._outlines, "observations": observed, "events": self.events} | {
            "above": list(self.above)
        }

    @property
    def recipe_of_fold(self) -> Recipe:
        """The same part of the recipe of a fold's tables, whose areas always include the region."""
        recipe = self.recipe
        return {"areas": ["region", *filter(None, [recipe.pop(OUTLINES)])], **recipe}

    @property
    def _outlines(self) -> dict[str, Any]:
        return {} if self.places is None else {OUTLINES: json.loads(self.places.geojson)}

    def describe(self, metrics: dict[str, Any]) -> None:
        """Add the places and the source of the observations to the contents of `metrics.json`."""
        metrics |= self._outlines
        if self.observations is not None:
            metrics["points"] |= self.observations.entry(metrics["points"]["left_out"])

    @property
    def words(self) -> str:
        """What was asked for in a few words, or nothing."""
        places = [] if self.places is None else [", ".join(self.places.names)]
        points = [f"observations in {observed['file']}"] if (observed := self.recipe["observations"]) else []
        above = [f"days above {', '.join(f'{level:g}' for level in self.above)} degC"] if self.above else []
        return "; ".join([*places, *points, *["warnings of heatwaves"] * self.events, *above])


NOTHING = Asked()
