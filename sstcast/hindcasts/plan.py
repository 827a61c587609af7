"""A hindcast's folder, the runs in it, and whether they can be made."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sstcast.config import COMBINATION, FOLDER_NAME, LONGEST_NAME, DataConfig, ModelConfig, RunConfig
from sstcast.errors import SSTCastError
from sstcast.hindcasts.files import Hindcast
from sstcast.hindcasts.folds import Fold, Protocol
from sstcast.models import LINEAR
from sstcast.names import BASELINES
from sstcast.ocean.prepare import days_of_source
from sstcast.ocean.reading import source_path
from sstcast.runs import Run
from sstcast.scores.saved import recipe_of_scores
from sstcast.scores.significance import SHORTEST_BLOCK, Lengths
from sstcast.training.train import ensemble

SELECTED = "selected"
RESERVED = ("baselines", "maps", "metrics.json", "scores.nc", "hindcast.csv", "report.html")


@dataclass(frozen=True)
class Plan:
    """What is to be done: systems, one configuration each, trained anew for every fold."""

    hindcast: Hindcast
    protocol: Protocol
    systems: list[RunConfig]
    seeds: list[int]  # none for single runs
    fitted: str | None = None  # name of one more system: their combination with fitted weights,
    equal: str | None = None  # and of another, with equal ones
    select: tuple[str, ...] = ()  # systems among which one is chosen for each fold, on the years before it

    @property
    def combinations(self) -> list[RunConfig]:
        """The combinations of systems, which are to be scored beside them; `SELECTED` has one for each fold."""
        model, first = ModelConfig(name=COMBINATION), self.systems[0]
        names = [name for name in (self.fitted, self.equal, SELECTED if self.select else None) if name is not None]
        return [first.model_copy(update={"name": name, "model": model}) for name in names]

    @property
    def scored(self) -> list[RunConfig]:
        """All that forecasts: the systems and their combinations."""
        return [*self.systems, *self.combinations]

    def parts(self, combination: RunConfig) -> list[RunConfig]:
        """Return the systems of a combination."""
        chosen = self.select if combination.name == SELECTED and self.select else None
        return [system for system in self.systems if chosen is None or system.name in chosen]

    @property
    def earlier(self) -> list[Fold]:
        """The folds before the protocol's, whose forecasts choose a system for its first ones."""
        first, *_ = self.protocol.folds
        return self.protocol.before(first).folds if self.select else []

    @property
    def trained(self) -> list[RunConfig]:
        """The runs, or ensembles, to train."""
        chosen = [
            self.run(system, fold)
            for fold in self.earlier
            for system in self.systems
            if system.name in self.select
        ]
        return chosen + [self.run(system, fold) for system in self.systems for fold in self.protocol.folds]

    def members(self, run: RunConfig) -> list[RunConfig]:
        """Return what is trained for a run: itself, or an ensemble of it. A seed changes no linear system."""
        return ensemble(run, self.seeds) if self.seeds and run.model.name not in LINEAR else [run]

    def run(self, system: RunConfig, fold: Fold) -> RunConfig:
        """Return the configuration of a system's run, or ensemble, for a fold."""
        runs = self.hindcast.folder / system.name
        data, *also = map(fold.split, system.oceans)
        return system.model_copy(update={"name": fold.name, "runs": runs, "data": data, "also": tuple(also)})

    def baselines(self, data: DataConfig) -> Path:
        """Return where the errors of the baselines are, given a fold's data."""
        key = hashlib.sha256(data.model_dump_json(exclude={"directory"}).encode()).hexdigest()[:8]
        return self.hindcast.folder / "baselines" / f"fold-{data.splits.test[0].year}-{data.protocol}-{key}.nc"

    @cached_property
    def oceans(self) -> dict[str, list[DataConfig]]:
        """The different data of the systems, each by the first system that has it: one configuration a fold."""
        found: dict[str, list[DataConfig]] = {}
        for system in self.systems:
            data = [fold.split(system.data) for fold in self.protocol.folds]
            if data not in found.values():
                found[system.name] = data
        return found

    def thresholds(self, fold: Fold) -> DataConfig:
        """Return the data whose base period heatwaves of a fold are measured by: for all systems the longest."""
        return min((fold.split(system.data) for system in self.systems), key=lambda data: data.splits.base)

    @property
    def recipe(self) -> dict[str, Any]:
        """What determines the scores, as far as it is there: protocol, and the checkpoints of every run."""
        runs = {
            system.name: {
                fold.name: checkpoints(Run(self.run(system, fold).folder)) for fold in self.protocol.folds
            }
            for system in self.scored
        }
        return recipe_of_scores() | {"protocol": self.protocol.plain(), "runs": runs}

    def check(self) -> None:
        """Raise SSTCastError if the systems do not fit each other, the folder, or the days there are."""
        if not self.systems:
            raise SSTCastError("hindcast: no system; give the configuration of one or more")
        if Run(self.hindcast.folder).config_file.exists():
            raise SSTCastError(f"--out {self.hindcast.folder}: holds a run; choose another folder")
        names = [system.name for system in self.systems]
        for system in self.systems:
            if names.count(system.name) > 1:
                raise SSTCastError(
                    f"{system.name}: the name of two systems; give one of them another `name` in its YAML"
                )
            self._check_name(system, f"{system.name}: ")
            if system.training.devices > 1:
                raise SSTCastError(
                    f"{system.name}: training.devices: a hindcast trains each run on one; set it to 1"
                )
        if absent := [name for name in self.select if name not in names]:
            raise SSTCastError(f"--select: no system is called {absent[0]}; the systems are {', '.join(names)}")
        self._check_one_ocean(_SHARED)
        for combination in self.combinations:
            self._check_combination(combination)
        for run in self.trained:
            self._check_run(run)

    def _check_name(self, system: RunConfig, where: str) -> None:
        if system.name in RESERVED:
            raise SSTCastError(f"{where}is the name of a file or folder of every hindcast; choose another name")
        baseline = BASELINES.get(system.name.replace("-", " "))
        if baseline not in (None, system.model.name):
            raise SSTCastError(f"{where}is the name of a baseline, which this is not; choose another name")

    def _check_combination(self, combination: RunConfig) -> None:
        name = combination.name
        option = {self.equal: "--average", self.fitted: "--combine"}.get(name, "--select")
        where = f"{option} {name}: "
        if len(self.parts(combination)) < 2 or len(name) > LONGEST_NAME or not re.fullmatch(FOLDER_NAME, name):
            raise SSTCastError(f"{where}give a short name of letters and digits, and two or more systems")
        if [made.name for made in self.combinations].count(name) > 1 or name in [
            system.name for system in self.systems
        ]:
            raise SSTCastError(f"{where}is the name of another system; choose another")
        if name == self.fitted:
            for system in self.systems:
                if system.training.include_validation:
                    raise SSTCastError(f"{where}{system.name} learns from its validation days; use --average")
        self._check_name(combination, where)
        self._check_one_ocean(_COMBINED)
        for fold in self.protocol.folds:
            run = Run(self.run(combination, fold).folder)
            if run.config_file.exists() and run.config.model.name != COMBINATION:
                raise SSTCastError(f"{where}{run.folder} holds a system of this name; choose another")

    def _check_run(self, config: RunConfig) -> None:
        run = Run.find(config)
        data, every = config.data, self.protocol.every
        first, last = data.splits.test
        starts = max(0, -(-((last - first).days + 1 - data.history - data.horizon) // every))
        block = Lengths.of(data.horizon, every, SHORTEST_BLOCK).block
        needed = block * (2 if len(self.protocol.folds) == 1 else 1)
        if starts < needed:
            raise SSTCastError(
                f"--fold {self.protocol.fold}: {config.name} has {starts} initial dates, and intervals need "
                f"{needed}; choose longer folds"
            )
        held = {member.folder.name for member in run.members if member.folder != run.folder}
        wanted = {f"seed-{seed}" for seed in self.seeds if config.model.name not in LINEAR}
        if not held <= wanted or (wanted and run.best.exists()):
            what = ", ".join(sorted(held - wanted)) or "a single run"
            raise SSTCastError(f"{run.folder}: holds {what}; give the --seeds it was begun with, or another --out")

    def check_days(self) -> None:
        """Raise SSTCastError if the source lacks days that are to be learnt from or forecast."""
        for data in self.oceans.values():
            first, last = days_of_source(data[0])
            begin, end = data[0].splits.train[0], data[-1].splits.test[1]
            if end > last or data[0].splits.test[0] < first:
                years = f"{self.protocol.first}:{self.protocol.last}"
                raise SSTCastError(
                    f"--years {years}: has days outside the data ({first}..{last}); choose others or fetch more"
                )
            if begin < first:
                raise SSTCastError(
                    f"data.splits.train: begins on {begin}, before the data ({first}..{last}); begin later"
                )
        for system in self.systems:
            for ocean in system.also:
                first, last = days_of_source(ocean)
                begin, end = ocean.splits.train[0], self.protocol.folds[-1].split(ocean).splits.test[1]
                if begin < first or end > last:
                    raise SSTCastError(
                        f"{system.name}: its ocean {ocean.source} holds {first}..{last}, and the hindcast needs "
                        f"{begin}..{end}; leave that ocean out, or choose other years"
                    )

    def _check_one_ocean(self, keys: dict[str, Callable[[DataConfig], Any]]) -> None:
        first, *others = self.systems
        for system in others:
            for key, of in keys.items():
                ours, theirs = of(first.data), of(system.data)
                if ours != theirs:
                    raise SSTCastError(
                        f"{system.name}: its data.{key} is {theirs}, but {first.name} has {ours}; "
                        f"a {'combination' if keys is _COMBINED else 'hindcast'} is of systems that forecast the "
                        "same days of the same ocean"
                    )


def _region(data: DataConfig) -> str:
    """Return the cells of a region: how they are cut into tiles matters only where some are left out."""
    other = {"land_tiles"} if data.box.skip else {"land_tiles", "tile"}
    return json.dumps(data.box.model_dump(mode="json", exclude=other))


_SHARED: dict[str, Callable[[DataConfig], Any]] = {
    "source": lambda data: str(source_path(data.source).resolve()),
    "variable": lambda data: data.variable,
    "units": lambda data: data.units,
    "gaps": lambda data: data.gaps,
    "region": _region,
    "history": lambda data: data.history,
    "horizon": lambda data: data.horizon,
}
_COMBINED: dict[str, Callable[[DataConfig], Any]] = {
    "protocol": lambda data: data.protocol,
    "region": lambda data: data.box.model_dump_json(),
    "splits.train": lambda data: data.splits.train[0],
}


def checkpoints(run: Run) -> list[str]:
    """Return the digests of a run's best weights, one a member; empty for one that is not there."""
    files = [member.best for member in run.members]
    return [hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "" for file in files]
