"""The plan of a hindcast: its years, folds and systems, the runs in its folder, and checks before it starts."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from sstcast.config import COMBINATION, DataConfig, ModelConfig, RunConfig
from sstcast.errors import SSTCastError, counted
from sstcast.models import LINEAR
from sstcast.names import BASELINES
from sstcast.ocean.prepare import days_of_source
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.splits import for_years
from sstcast.runs import Run
from sstcast.scores.asked import NOTHING, Asked
from sstcast.scores.score_files import ScoreFiles, recipe_of_scores
from sstcast.scores.scored_days import digest_of_scored
from sstcast.scores.significance import DateBlocks
from sstcast.scores.system_records import BASELINE, record
from sstcast.storage.artefacts import check_own, digest, read_recipe
from sstcast.storage.yaml_files import FIRST_YEAR, LAST_YEAR, suggest, validate
from sstcast.training.train import members

SELECTED = "selected"


@dataclass(frozen=True)
class Hindcast(ScoreFiles):
    """The files of a hindcast.

    metrics.json     scores of all systems
    scores.nc        statistics by date, lead week and cell, and the significance of differences
    hindcast.csv     the scores as a table
    report.html      the report
    baselines/       statistics of the baselines, one file for each fold and each data configuration
    SYSTEM/hindcast.zarr     forecasts of all folds
    SYSTEM/fold-YEAR/        a run or an ensemble, and its statistics in hindcast.nc
    """

    @property
    def csv(self) -> Path:
        """The path of the scores as a table."""
        return self.folder / "hindcast.csv"

    def forecasts(self, system: str) -> Path:
        """Return the path of a system's forecasts of all folds."""
        return self.folder / system / "hindcast.zarr"


@dataclass(frozen=True)
class Protocol:
    """The protocol of a hindcast.

    Attributes:
        first, last: the first and the last year that is forecast.
        fold: the number of years in a fold, on which one trained model is tested. The last fold may be shorter.
        validation: the number of years before a fold on which the weights are selected.
        every: days from one initial date to the next.
    """

    first: int
    last: int
    fold: int = 4
    validation: int = 2
    every: int = 3

    @classmethod
    def parse(cls, years: str, fold: int, validation: int, every: int) -> "Protocol":
        """Parse years such as `1997:2016`. Raises SSTCastError if they are invalid or fewer than a fold has."""
        years = years if isinstance(years, str) else ":".join(map(str, np.ravel(years)))  # from Python
        match = re.fullmatch(r"([0-9]{4}):([0-9]{4})", years)
        first, last = map(int, match.groups()) if match else (0, 0)
        if not FIRST_YEAR <= first <= last <= LAST_YEAR:
            raise SSTCastError(
                f"--years {years}: write the first and the last year forecast, for instance 1997:2016"
            )
        if min(fold, validation, every) < 1 or every > 366:
            raise SSTCastError("hindcast: --fold and --validation must be at least 1 year, --every 1 to 366 days")
        if fold > (count := last - first + 1):
            raise SSTCastError(
                f"--fold {fold}: is longer than the {counted(count, 'year')} of --years {years}; choose fewer"
            )
        return cls(first, last, fold, validation, every)

    @property
    def folds(self) -> list["Fold"]:
        """The folds in order."""
        firsts = range(self.first, self.last + 1, self.fold)
        return [Fold(first, min(first + self.fold - 1, self.last), self.validation) for first in firsts]

    def before(self, fold: "Fold") -> "Protocol":
        """Return the protocol of the two folds before `fold`, on which its system may be selected."""
        return replace(self, first=fold.first - 2 * self.fold, last=fold.first - 1)


@dataclass(frozen=True)
class Fold:
    """The years `first` to `last`, forecast by models whose training ends `validation` years earlier."""

    first: int
    last: int
    validation: int

    @property
    def name(self) -> str:
        """The name of the fold's runs."""
        return f"fold-{self.first}"

    def split(self, data: DataConfig) -> DataConfig:
        """Return `data` with the splits of this fold.

        Training begins on the same day as in `data`. The climatology covers all days before the fold, which a
        forecaster would have known. Raises SSTCastError if less than a year, or no window, is left for training.
        """
        splits = for_years(data, self.first, self.last, self.validation, self.name)
        return data.model_copy(update={"splits": splits})


@dataclass(frozen=True)
class Plan:
    """The work of a hindcast. Each system has one configuration and is retrained for every fold."""

    hindcast: Hindcast
    protocol: Protocol
    systems: list[RunConfig]
    seeds: list[int]  # empty for single runs
    fitted: str | None = None  # name of the combination with fitted weights
    equal: str | None = None  # name of the combination with equal weights
    select: tuple[str, ...] = ()  # systems from which each fold selects one by its errors in earlier years
    asked: Asked = NOTHING  # what is verified besides all cells

    @property
    def combinations(self) -> list[RunConfig]:
        """The combinations of systems, which are scored beside the systems.

        `SELECTED` is a combination of a single system in each fold.
        """
        model, selected = ModelConfig(name=COMBINATION), SELECTED if self.select else None
        common = {key: getattr(self.systems[0], key) for key in ("runs", "data")}
        names_by_option = {"--combine": self.fitted, "--average": self.equal, "--select": selected}
        return [
            validate(RunConfig, common | {"name": name, "model": model}, f"{option} {name}")
            for option, name in names_by_option.items()
            if name is not None
        ]

    @property
    def scored(self) -> list[RunConfig]:
        """All systems to score, including the combinations."""
        return [*self.systems, *self.combinations]

    def parts(self, combination: RunConfig) -> list[RunConfig]:
        """Return the systems of a combination."""
        names = self.select if combination.name == SELECTED and self.select else None
        return [system for system in self.systems if names is None or system.name in names]

    @property
    def earlier(self) -> list[Fold]:
        """The folds before the first year forecast, which are needed to select a system for the first folds."""
        first, *_ = self.protocol.folds
        return self.protocol.before(first).folds if self.select else []

    @property
    def trained(self) -> list[RunConfig]:
        """The runs, or ensembles, to train."""
        selection_runs = [
            self.run(system, fold)
            for fold in self.earlier
            for system in self.systems
            if system.name in self.select
        ]
        return selection_runs + [self.run(system, fold) for system in self.systems for fold in self.protocol.folds]

    def members(self, run: RunConfig) -> list[RunConfig]:
        """Return the members of an ensemble, or the run itself.

        Linear systems and combinations do not depend on a seed, so they are single runs.
        """
        return [run] if not self.seeds or run.model.name in (*LINEAR, COMBINATION) else members(run, self.seeds)

    def dropped(self, run: RunConfig) -> list[Run]:
        """Return the members of an interrupted hindcast with other seeds whose training had saved nothing."""
        kept = [member.folder for member in self.members(run)]
        return [
            member
            for member in Run(run.folder).members
            if member.folder not in (run.folder, *kept) and not any(member.folder.rglob("*.pt"))
        ]

    def run(self, system: RunConfig, fold: Fold) -> RunConfig:
        """Return the configuration of a system's run or ensemble for a fold."""
        runs = self.hindcast.folder / system.name
        return system.model_copy(update={"name": fold.name, "runs": runs, "data": fold.split(system.data)})

    def baselines(self, data: DataConfig) -> Path:
        """Return the path of the baselines' statistics, given the data of a fold."""
        key = hashlib.sha256(data.model_dump_json(exclude={"directory"}).encode()).hexdigest()[:8]
        return self.hindcast.folder / "baselines" / f"fold-{data.splits.test[0].year}-{data.protocol}-{key}.nc"

    @cached_property
    def oceans(self) -> dict[str, list[DataConfig]]:
        """The distinct data of the systems without predictors, with one configuration for each fold.

        The keys are the names of the first system with these data.
        """
        oceans: dict[str, list[DataConfig]] = {}
        for system in self.systems:
            data = [fold.split(without_predictors(system.data)) for fold in self.protocol.folds]
            if data not in oceans.values():
                oceans[system.name] = data
        return oceans

    @property
    def baseline_names(self) -> dict[str, dict[str, str]]:
        """The names of the baselines in tables, for each of `oceans`. A system may replace a baseline."""
        replaced = {system.name.replace("-", " ") for system in self.scored}
        baselines = [baseline for baseline in BASELINES if baseline not in replaced]
        return {
            ocean: {
                baseline: baseline if len(self.oceans) == 1 else f"{baseline} ({ocean})" for baseline in baselines
            }
            for ocean in self.oceans
        }

    @property
    def records_of_baselines(self) -> dict[str, dict[str, Any]]:
        """The records of the baselines by their names in tables."""
        of_several = len(self.oceans) > 1
        return {
            key: record(BASELINE, *((ocean, baseline) if of_several else ()))
            for ocean, keys in self.baseline_names.items()
            for baseline, key in keys.items()
        }

    def reference(self, name: str) -> str:
        """Return the system or baseline called `name`, or whose name begins with this word.

        Raises SSTCastError if there is none.
        """
        baselines = [label for labels in self.baseline_names.values() for label in labels.values()]
        names = [*(system.name for system in self.scored), *baselines]
        by_first_word = {known.split()[0]: known for known in reversed(names)}
        if name not in names and name not in by_first_word:
            known = ", ".join(names)
            raise SSTCastError(f"--against {name}: no system of the table{suggest(name, names)}; known: {known}")
        return name if name in names else by_first_word[name]

    def thresholds(self, fold: Fold) -> DataConfig:
        """Return the data whose base period defines the heatwave thresholds of a fold.

        All systems use the longest base period.
        """
        return min((fold.split(system.data) for system in self.systems), key=lambda data: data.splits.base)

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the scores: the protocol, the checkpoints of every trained member, and the days scored.

        Without stores, scores that are there are taken to be of the days that they tell.
        """
        stores = {name: [Prepared.of(data) for data in folds] for name, folds in self.oceans.items()}
        scored = (read_recipe(self.hindcast.metrics) or {}).get("scored")
        if all(prepared.is_current for folds in stores.values() for prepared in folds):
            scored = {name: [*map(digest_of_scored, folds)] for name, folds in stores.items()}
        runs = {
            system.name: {
                fold.name: checkpoints([Run(member.folder) for member in self.members(self.run(system, fold))])
                for fold in self.protocol.folds
            }
            for system in self.scored
        }
        joined = {"fitted": self.fitted, "equal": self.equal, "select": list(self.select)}
        asked = {"protocol": asdict(self.protocol), **joined, **self.asked.recipe}
        filled = max((system.data for system in self.systems), key=attrgetter("gaps"))
        return recipe_of_scores(filled) | asked | {"runs": runs, "scored": scored}

    def check(self) -> None:
        """Raise SSTCastError if the systems, the folder or the folds do not fit together."""
        if Run(self.hindcast.folder).config_file.exists():
            raise SSTCastError(f"--out {self.hindcast.folder}: holds a run; choose another folder")
        self.hindcast.check_own()
        check_own(self.hindcast.csv, "rename it, or name another --out", "system,model,")
        names = [system.name for system in self.scored]
        for system in self.scored:
            if names.count(system.name) > 1:
                raise SSTCastError(
                    f"{system.name}: two systems have this name; give one another name (for a CONFIG, in its YAML)"
                )
            baseline = BASELINES.get(system.name.replace("-", " "))
            if baseline not in (None, system.model.name):
                raise SSTCastError(
                    f"{system.name}: is the name of a baseline, but the model is another; choose another name"
                )
            if system.training.devices > 1:
                raise SSTCastError(
                    f"{system.name}: training.devices: a hindcast trains each run on one device; set it to 1"
                )
        system_names = [system.name for system in self.systems]
        if absent := [name for name in self.select if name not in system_names]:
            raise SSTCastError(
                f"--select: no system is called {absent[0]!r}; the systems are {', '.join(system_names)}"
            )
        self._check_alike(_shared)
        if self.combinations:
            self._check_alike(_combined)
        for combination in self.combinations:
            self._check_combination(combination)
        for run in self.trained:
            self._check_run(run)

    def _check_combination(self, combination: RunConfig) -> None:
        name = combination.name
        if len(self.parts(combination)) < 2:
            raise SSTCastError(f"{name}: needs at least two systems; name more")
        for system in self.systems:
            if name == self.fitted and system.training.include_validation:
                raise SSTCastError(
                    f"--combine {name}: {system.name} is trained on its validation days; use --average"
                )
        for fold in self.protocol.folds:
            run = Run(self.run(combination, fold).folder)
            if run.config_file.exists() and run.config.model.name != COMBINATION:
                raise SSTCastError(f"{name}: {run.folder} holds a system of this name; choose another")

    def _check_run(self, config: RunConfig) -> None:
        """Raise SSTCastError if a fold is too short for intervals, or its folder was made with other seeds."""
        run = Run.find(config)
        data, every = config.data, self.protocol.every
        first, last = data.splits.test
        starts = max(0, -(-((last - first).days + 1 - data.history - data.horizon) // every))
        block = DateBlocks.of(data.horizon, every).block
        needed = block * (2 if len(self.protocol.folds) == 1 else 1)
        if starts < needed:
            raise SSTCastError(
                f"--fold {self.protocol.fold}: {config.name} has {starts} initial dates, but intervals need "
                f"{needed}; choose longer folds"
            )
        member_names = {member.folder.name for member in run.members if member.folder != run.folder}
        expected_names = {member.name for member in self.members(config) if member != config}
        unexpected_names = member_names - expected_names - {member.folder.name for member in self.dropped(config)}
        if unexpected_names or (expected_names and run.best.exists()):
            unexpected = ", ".join(sorted(unexpected_names)) or "a single run"
            raise SSTCastError(f"{run.folder}: holds {unexpected}; give the original --seeds, or another --out")

    def check_days(self) -> None:
        """Raise SSTCastError if a source lacks days that the hindcast trains on or forecasts."""
        last_fold = self.protocol.folds[-1]
        for ocean in (system.data for system in self.systems):
            first, last = days_of_source(ocean)
            begin, end = ocean.splits.train[0], last_fold.split(ocean).splits.test[1]
            if begin < first or end > last:
                raise SSTCastError(
                    f"{ocean.source}: holds {first}..{last}, but the hindcast needs {begin}..{end}; choose other "
                    "--years, begin data.splits.train later, or fetch more"
                )

    def _check_alike(self, keys_of: Callable[[DataConfig], dict[str, Any]]) -> None:
        first, *other_systems = self.systems
        for system in other_systems:
            values = keys_of(system.data)
            for key, expected in keys_of(first.data).items():
                if expected != (value := values[key]):
                    raise SSTCastError(
                        f"{system.name}: its data.{key} is {value}, but {first.name} has {expected}; all systems "
                        "must forecast the same days of the same ocean, and combinations also need the same "
                        "protocol, tiles and training days"
                    )


def _region(data: DataConfig) -> str:
    """Return the cells of a region as JSON.

    The division into tiles is included only if some tiles are skipped, because it then decides which cells remain.
    """
    excluded_keys = {"land_tiles"} if data.box.skip else {"land_tiles", "tile"}
    return json.dumps(data.box.model_dump(mode="json", exclude=excluded_keys))


def _shared(data: DataConfig) -> dict[str, Any]:
    """Return what all systems of a hindcast have in common: they forecast the same days of the same cells."""
    of_source = {"source": str(data.path.resolve()), **data.reading, "region": _region(data)}
    return of_source | {"history": data.history, "horizon": data.horizon}


def _combined(data: DataConfig) -> dict[str, Any]:
    """Return what systems that are combined have in common besides."""
    return {
        "protocol": data.protocol,
        "region": data.box.model_dump_json(),
        "splits.train": data.splits.train[0],
        "predictors": data.predictors,
    }


def without_predictors(data: DataConfig) -> DataConfig:
    """Return the data of the baselines, which read SST alone."""
    return data.model_copy(update={"predictors": {}})


def checkpoints(members: list[Run]) -> list[str]:
    """Return the digest of each member's best checkpoint, or an empty string if it does not exist."""
    return [digest(member.best) for member in members]
