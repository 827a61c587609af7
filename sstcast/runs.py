"""A run's folder: where everything about one training lies.

runs/NAME/
  config.yaml       the resolved configuration
  provenance.json   versions, machine, time, and the command
  data.json         digests of the data it was trained on; data-2.json, ... of further oceans
  history.csv       one row an epoch: loss, learning rate, validation scores, seconds since the start
  checkpoints/      best.pt (best validation score) and step-N.pt (to continue from)
  forecasts.zarr    sst(init_time, lead, lat, lon) in degC for the test days
  scores.nc         scores by date, lead, tile and cell
  metrics.json      scores of the model and of the baselines
  forecast-DATE.nc  single forecasts
  maps/             PNG files
  report.html       all of it on one page

An ensemble's folder holds its members, `seed-0/`, `seed-1/`, ..., each a run with a configuration, history and
checkpoints of its own, in place of the last two; all else is the ensemble's.

A combination's configuration names the runs that are its parts, and best.pt holds their weights in it.

RUN/elsewhere-NAME/ holds what was made of a run on another ocean: all of the above but history and checkpoints,
which are the run's.
"""

import datetime as dt
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from sstcast import __version__
from sstcast.config import COMBINATION, RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic
from sstcast.plain_yaml import read_config, save_config
from sstcast.validation import Strict, validate

ELSEWHERE = "elsewhere-"  # begins the name of a folder for a run on another ocean


class Part(Strict):
    """A run that a combination is made of: its folder, seen from the combination's, and its `digest`."""

    run: Path
    checkpoints: str


class Parts(Strict):
    """The options of a combination."""

    parts: list[Part] = Field(min_length=2)
    weights: Literal["fitted", "equal"] = "fitted"


class Record(Strict):
    """What a run keeps as JSON and compares later."""

    @classmethod
    def load(cls, path: Path, remedy: str) -> Self:
        """Read a record; raise SSTCastError, with the remedy, if it is damaged."""
        try:
            return cls.model_validate_json(path.read_bytes(), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            reason = f"{key}: {first['msg']}" if key else first["msg"]
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
        raise SSTCastError(f"{path}: is damaged ({' '.join(reason.split())}); {remedy}")

    def save(self, path: Path) -> None:
        """Write the record, whole or not at all."""
        write_json(path, self.model_dump(mode="json"))


@dataclass(frozen=True)
class Run:
    """The paths of a run; reading and writing them is left to the rooms."""

    folder: Path

    @property
    def config_file(self) -> Path:
        """The resolved configuration."""
        return self.folder / "config.yaml"

    @property
    def history(self) -> Path:
        """Training history."""
        return self.folder / "history.csv"

    @property
    def best(self) -> Path:
        """Checkpoint of the lowest validation error."""
        return self.checkpoints / "best.pt"

    @property
    def checkpoints(self) -> Path:
        """Folder of the best checkpoint and of those to continue from."""
        return self.folder / "checkpoints"

    @property
    def members(self) -> list["Run"]:
        """The runs of an ensemble by seed; a single run is its own only member."""
        run = self.trained
        seeds = sorted(run.folder.glob("seed-*/config.yaml"), key=lambda file: (len(file.parent.name), file))
        return [Run(file.parent) for file in seeds] or [run]

    @property
    def trained(self) -> "Run":
        """The run whose weights forecast: another one if this is its folder for another ocean."""
        folder = self.folder.resolve()
        if not folder.name.startswith(ELSEWHERE) or not (folder.parent / "config.yaml").exists():
            return self
        return Run(self.folder.parent if self.folder.name == folder.name else folder.parent)

    @property
    def recorded(self) -> list["Run"]:
        """The runs whose `data` say of what data this is."""
        return self.members if self.trained == self else [self]

    @property
    def digest(self) -> str:
        """A hash of the weights: of the best checkpoints of all members."""
        return hashlib.sha256(b"".join(member.best.read_bytes() for member in self.members)).hexdigest()

    @property
    def parts(self) -> list[Part]:
        """What the configuration of a combination says that it is made of; nothing of any other run's."""
        if (model := self.config.model).name != COMBINATION:
            return []
        return validate(Parts, model.options, f"{self.config_file}: model").parts

    def open_parts(self) -> list["Run"]:
        """Open the runs that a combination is made of; there are none of any other run.

        Raises SSTCastError if one is not there, or has been trained again since.
        """
        parts = {Run(Path(os.path.normpath(self.folder / part.run))): part for part in self.parts}
        for run, part in parts.items():
            if not run.config_file.exists():
                raise SSTCastError(f"{self.folder}: its part {run.folder} is not there; put it back")
            if Run.open(run.folder).digest != part.checkpoints:
                raise SSTCastError(
                    f"{self.folder}: its part {run.folder} has been trained again since; "
                    "run the same `sstcast combine` again"
                )
        return list(parts)

    @property
    def forecasts(self) -> Path:
        """Forecasts of the test days."""
        return self.folder / "forecasts.zarr"

    @property
    def data(self) -> Path:
        """Record of the data it was trained on."""
        return self.folder / "data.json"

    def data_of(self, number: int) -> Path:
        """Record of one of several oceans, from 1 on."""
        return self.data if number == 1 else self.folder / f"data-{number}.json"

    @property
    def metrics(self) -> Path:
        """Scores."""
        return self.folder / "metrics.json"

    @property
    def maps(self) -> Path:
        """Folder of PNG files."""
        return self.folder / "maps"

    @property
    def report(self) -> Path:
        """The page that shows it all."""
        return self.folder / "report.html"

    @property
    def config(self) -> RunConfig:
        """The configuration the run was made with."""
        return load_config(self.config_file)

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """Open a run, or an ensemble all of whose members have been trained, however briefly.

        Raises SSTCastError if the folder is no run, a checkpoint is not there yet, or a part of a combination is
        not as it was.
        """
        run = cls(folder)
        if not run.config_file.exists():
            raise SSTCastError(f"{folder}: not a run (no config.yaml); name a folder that `sstcast train` made")
        for member in run.members:
            if not member.best.exists():
                raise SSTCastError(f"{member.best}: no checkpoint yet; run `sstcast train` first")
        run.trained.open_parts()
        return run

    @classmethod
    def find(cls, config: Any, folder: Path | None = None) -> "Run":
        """Return the configured run, made or not; raise SSTCastError if its folder holds another one.

        `config` is any that says what is the `same_experiment`; `folder` is its own by default.
        """
        run = cls(folder or config.folder)
        if run.config_file.exists():
            saved = validate(type(config), read_config(run.config_file), str(run.config_file))
            if not saved.same_experiment(config):
                key = "name" if isinstance(config, RunConfig) else "runs"
                raise SSTCastError(
                    f"{run.config_file}: a run of this name has another configuration; "
                    f"choose another with --set {key}=..., or delete the folder"
                )
        return run

    @classmethod
    def create(
        cls, config: Any, write: bool = True, folder: Path | None = None, data: Record | None = None
    ) -> "Run":
        """Make the run's folder, or open it if it holds the same configuration; only look unless `write`.

        `data` is the record of the data it is to be trained on, where that is known by now. Raises SSTCastError as
        `find` does.
        """
        run = cls.find(config, folder)
        if run.config_file.exists() or not write:
            return run
        with alone(run.checkpoints):
            if cls.find(config, folder).config_file.exists():  # made while this one waited
                return run
            run.checkpoints.mkdir(parents=True, exist_ok=True)
            write_json(run.folder / "provenance.json", provenance())
            if data is not None:
                data.save(run.data)
            with atomic(run.config_file) as temporary:  # last: a folder with a configuration is a run
                save_config(config, temporary)
        return run


def write_json(path: Path, content: Any) -> None:
    """Write plain data as JSON, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def provenance() -> dict[str, object]:
    """Return what made this: versions, platform, time and command line."""
    packages = ("torch", "torch-geometric", "lightning-fabric", "numpy", "xarray", "dask", "zarr", "scikit-learn")
    return {
        "sstcast": __version__,
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in packages},
    }
