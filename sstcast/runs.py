"""Run folders, which hold all files of one training (see docs/runs.md).

The folder of an ensemble contains its members, `seed-0/`, `seed-1/`, ..., instead of a history and checkpoints.
Each member is a run with its own configuration, history and checkpoints. All other files belong to the ensemble.

The configuration of a combination lists its parts, the runs that it averages, and best.pt holds their weights.

RUN/elsewhere-NAME/ contains the results of a run on another ocean. It has the same files as a run, except history
and checkpoints.
"""

import datetime as dt
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sstcast._version import __version__
from sstcast.config import COMBINATION, RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.storage.artefacts import atomic, digest, locked, write_json
from sstcast.storage.paths import packaged, read_regular
from sstcast.storage.yaml_files import JsonRecord, Strict, read_config, save_config, validate

PRETRAINED = "pretrained"  # stands for the run that ships with sstcast wherever a command takes a run's folder
ELSEWHERE = "elsewhere-"  # prefix of folders with a run's results on another ocean


class CombinedRun(Strict):
    """A part of a combination: its folder, relative to the combination's, and its `Run.digest`."""

    run: Path
    checkpoints: str


class Parts(Strict):
    """The options of a combination."""

    parts: list[CombinedRun] = Field(min_length=1)
    weights: Literal["fitted", "equal"] = "fitted"


class _PathInRun:
    """Attribute of a run: the path of a file or folder inside the run's folder."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run: "Run", kind: type["Run"]) -> Path:
        return run.folder / self.name


@dataclass(frozen=True)
class Run:
    """The folder of a run and the paths in it. Other modules read and write the files."""

    folder: Path

    config_file = _PathInRun("config.yaml")
    data = _PathInRun("data.json")
    history = _PathInRun("history.csv")
    curve = _PathInRun("curve.csv")
    checkpoints = _PathInRun("checkpoints")
    best = _PathInRun("checkpoints/best.pt")
    forecasts = _PathInRun("forecasts.zarr")
    metrics = _PathInRun("metrics.json")
    places = _PathInRun("places.geojson")
    temperatures = _PathInRun("temperatures.json")
    gaps = _PathInRun("gaps.json")
    maps = _PathInRun("maps")
    report = _PathInRun("report.html")

    def __fspath__(self) -> str:
        """Return the folder, so that a run may be given in place of its folder."""
        return str(self.folder)

    @property
    def label(self) -> str:
        """The name of the run in tables: its folder's, or `RUN @ SOURCE` (or region) on another ocean.

        A source that is called like the run's own has the folders in front that tell them apart.
        """
        if self.trained == self:
            return self.folder.name
        trained_data, data = self.trained.config.data, self.config.data
        ocean = data.place
        if data.source != trained_data.source:
            own, other = (Path(source).with_suffix("").parts for source in (trained_data.source, data.source))
            last = next((n for n in range(1, len(other)) if other[-n:] != own[-n:]), len(other))
            ocean = "/".join(other[-last:])
        return f"{self.trained.folder.name} @ {ocean}"

    def labels_beside(self, other: "Run") -> tuple[str, str]:
        """The labels of the run and of another one, which are their paths if both have the same label."""
        labels = self.label, other.label
        return labels if labels[0] != labels[1] else (str(self.folder), str(other.folder))

    @property
    def members(self) -> list["Run"]:
        """The members of an ensemble in order of seed. A single run has one member, itself."""
        run = self.trained
        seeds = sorted(run.folder.glob("seed-*/config.yaml"), key=lambda file: (len(file.parent.name), file))
        return [Run(file.parent) for file in seeds] or [run]

    @property
    def trained(self) -> "Run":
        """The run that holds the weights: the parent run of an elsewhere-NAME folder, otherwise this run."""
        folder = self.folder.resolve()
        if not folder.name.startswith(ELSEWHERE) or not (folder.parent / "config.yaml").exists():
            return self
        return Run(self.folder.parent if self.folder.name == folder.name else folder.parent)

    @property
    def recorded(self) -> list["Run"]:
        """The runs whose `data` records identify this run's data."""
        return self.members if self.trained == self else [self]

    @property
    def digest(self) -> str:
        """The SHA-256 of the best checkpoints of all members."""
        return hashlib.sha256(b"".join(read_regular(member.best) for member in self.members)).hexdigest()

    @property
    def parts(self) -> list[CombinedRun]:
        """The parts of a combination, read from its configuration. Other runs have none."""
        if (model := self.config.model).name != COMBINATION:
            return []
        return validate(Parts, model.options, f"{self.config_file}: model").parts

    @property
    def part_digests(self) -> dict["Run", str]:
        """The parts of a combination, and the digest of each when it was made. Other runs have none."""
        return {Run(Path(os.path.normpath(self.folder / part.run))): part.checkpoints for part in self.parts}

    def open_parts(self) -> list["Run"]:
        """Open the parts of a combination. Other runs have none.

        Raises SSTCastError if a part is absent or has been retrained since.
        """
        parts = self.part_digests
        for run, combined in parts.items():
            if not run.config_file.exists():
                raise SSTCastError(f"{self.folder}: its part {run.folder} is missing; put it back")
            if Run.open(run.folder).digest != combined:
                raise SSTCastError(
                    f"{self.folder}: its part {run.folder} has been retrained since; "
                    "run the same `sstcast combine` command again"
                )
        return list(parts)

    @property
    def systems(self) -> list["Run"]:
        """The run itself or, for a combination, all runs that it averages, also within its parts."""
        return [system for part in self.trained.open_parts() for system in part.systems] or [self.trained]

    @property
    def config(self) -> RunConfig:
        return load_config(self.config_file)

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """Open a run or an ensemble. `pretrained` opens the run that ships with sstcast.

        Raises SSTCastError if the folder is not a run, a member has no checkpoint, or a part of a combination is
        absent or has changed.
        """
        run = cls(run_folder(folder))
        if not run.config_file.exists():
            meant = Path("runs") / folder
            hint = f"; did you mean {meant}?" if cls(meant).config_file.exists() else ""
            raise SSTCastError(
                f"{folder}: not a run (no config.yaml){hint or '; name a folder that `sstcast train` made'}"
            )
        for member in run.members:
            if not member.best.exists():
                raise SSTCastError(f"{member.best}: no checkpoint yet; run `sstcast train` first")
        run.trained.open_parts()
        return run

    @classmethod
    def find(cls, config: Any, folder: Path | None = None) -> "Run":
        """Return the configured run, whether it exists or not. Raises SSTCastError if the folder holds another.

        `config` is any configuration with a method `difference`. `folder` is `config.folder` by default.
        """
        run = cls(folder or config.folder)
        if run.config_file.exists():
            saved = validate(type(config), read_config(run.config_file), str(run.config_file))
            if differs := saved.difference(config):
                key = "name" if isinstance(config, RunConfig) else "label"
                raise SSTCastError(
                    f"{run.config_file}: a run with this name has another configuration ({differs} differs); "
                    f"choose another with --set {key}=..., or delete the folder"
                )
        return run

    @classmethod
    def create(
        cls, config: Any, write: bool = True, folder: Path | None = None, data: JsonRecord | None = None
    ) -> "Run":
        """Create the run's folder, or open it if it holds the same configuration. Writes nothing unless `write`.

        `data` is the record of the training data, if already known. Raises SSTCastError like `find`.
        """
        run = cls.find(config, folder)
        if run.config_file.exists() or not write:
            return run
        with locked(run.checkpoints):
            if cls.find(config, folder).config_file.exists():  # another process created it meanwhile
                return run
            run.checkpoints.mkdir(parents=True, exist_ok=True)
            write_json(run.folder / "provenance.json", provenance())
            if data is not None:
                data.save(run.data)
            # Written last, because a folder with a configuration is a run.
            with atomic(run.config_file) as temporary:
                save_config(config, temporary)
        return run


def file_name(text: str) -> str:
    """Replace all characters that a run's name may not contain."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def run_folder(folder: Path) -> Path:
    """Return a run's folder. For `pretrained`, first copy the run that ships with sstcast to `runs/`.

    Results are written to the copy. Raises SSTCastError if `runs/pretrained` holds another run.
    """
    if str(folder) != PRETRAINED or folder.exists():
        return folder
    shipped, copy = packaged(f"data/{PRETRAINED}"), Path("runs") / PRETRAINED
    with locked(copy):
        if not copy.exists():
            with atomic(copy) as temporary:
                shutil.copytree(shipped, temporary)
        elif digest(Run(copy).best) != digest(Run(shipped).best):
            raise SSTCastError(f"{copy}: is not the run that ships with this version; rename or delete it")
    return copy


def provenance() -> dict[str, object]:
    """Return versions, platform, time and command line, for `provenance.json`."""
    packages = ("torch", "torch-geometric", "lightning-fabric", "numpy", "xarray", "dask", "zarr", "scikit-learn")
    return {
        "sstcast": __version__,
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in packages},
    }
