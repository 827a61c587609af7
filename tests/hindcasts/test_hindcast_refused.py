"""Hindcasts that cannot be made: one line each, before anything is trained."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from refusals import refused
from small_hindcast import EVERY, plan, system, write_ocean

from sstcast import dask_schedulers, workers
from sstcast.api.arguments import trainable
from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.figures.results import Results
from sstcast.hindcasts import executors, fold
from sstcast.hindcasts import hindcast as hindcasts
from sstcast.hindcasts.executors import run_tasks
from sstcast.hindcasts.fold import train_run
from sstcast.hindcasts.hindcast import hindcast
from sstcast.hindcasts.plan import Hindcast, Plan, Protocol
from sstcast.runs import Run
from sstcast.training.train import ensemble

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def ocean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ocean(tmp_path_factory.mktemp("ocean"), years=6)


@pytest.fixture
def here(ocean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.nc").symlink_to(ocean)
    return tmp_path


LATE = {"train": ["2003-01-02", "2003-12-31"], "validation": [2004, 2004], "test": [2005, 2005]}
SKIPPED = {"lon": [170, 173], "lat": [-12, -10], "tile": [8, 6], "skip": [1]}


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (plan(system("a"), system("a", "mpnn")), "a: two systems have this name"),
        (plan(system("ridge")), "ridge: is the name of a baseline"),
        (plan(system("a"), fitted="both"), "both: needs at least two systems; name more"),
        (plan(system("a"), system("b"), fitted="../x"), r"--combine \.\./x: name: "),
        (plan(system("a"), system("b"), fitted="a"), "a: two systems have this name"),
        (plan(system("a"), system("b", protocol="paper"), equal="m"), "b: its data.protocol is paper, but a has"),
        (plan(system("a"), system("b"), select=("a", "c")), "--select: no system is called 'c'"),
        (plan(system("a", training={"devices": 2})), "a: training.devices: a hindcast trains each run on one"),
        (plan(system("a"), system("b", source="other.nc")), "b: its data.source is .*other.nc, but a"),
        (plan(system("a"), system("b", horizon=5)), "b: its data.horizon is 5, but a has 8"),
        (plan(system("a"), system("b", history=5)), "b: its data.history is 5, but a has 10"),
        (plan(system("a"), system("b", region=SKIPPED)), "b: its data.region is "),
        (plan(system("a", splits=LATE)), "--years: fold-2005 has 364 days to train on, from 2003-01-02"),
        (plan(system("a"), first=2002, last=2003), "--years: fold-2002 has 0 days to train on"),
        (plan(system("a"), validation=9), "--years: fold-2005 has 0 days to train on"),
        (plan(system("a"), last=2010), r"small.nc: holds .*..2006-12-31, .* 2001-01-01..2010-12-31; choose"),
        (plan(system("a", horizon=100), every=3), "--fold 1: fold-2005 has 85 initial dates, .* need 100"),
        (plan(system("a", horizon=110), fold=2, every=3), "--fold 2: fold-2005 has 204 .*dates, .* need 220"),
        (plan(system("a", splits={"train": [1999, 2002], "validation": [2003, 2003], "test": [2004, 2004]})),
         r"small.nc: holds 2001-01-01..2006-12-31, but the hindcast needs 1999-01-01.."),
    ],
)  # fmt: skip
def test_plans(here: Path, planned: Plan, words: str) -> None:
    with pytest.raises(SSTCastError, match=words) as error:
        hindcast(planned)
    assert "\n" not in str(error.value)
    assert not Path("hindcast").exists()
    assert not Path("prepared").exists()


def test_tiles_of_another_shape_are_the_same_ocean(here: Path) -> None:
    plan(system("a"), system("b", region={"lon": [170, 173], "lat": [-12, -10], "tile": [8, 12]})).check()


def test_a_used_name_keeps_its_configuration(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = plan(system("a"))
    Run.create(first.run(first.systems[0], first.protocol.folds[1]))
    for other in (plan(system("a", "mpnn")), plan(system("a"), validation=2)):
        with pytest.raises(SSTCastError, match=r"fold-2006/config.yaml: a run with this name has another config"):
            hindcast(other)


def test_a_run_is_no_folder_for_a_hindcast(here: Path) -> None:
    planned = plan(system("a"))
    run = Run.create(planned.run(planned.systems[0], planned.protocol.folds[0]))
    inside = replace(planned, hindcast=Hindcast(run.folder))
    with pytest.raises(SSTCastError, match=r"--out .*fold-2005: holds a run; choose another folder"):
        hindcast(inside)


@pytest.mark.parametrize(("name", "text"), [("hindcast.csv", "year,skill\n2001,1\n"), ("metrics.json", "{}")])
def test_files_of_others_are_not_replaced(here: Path, name: str, text: str) -> None:
    planned = plan(system("a"))
    own = planned.hindcast.folder / name
    own.parent.mkdir(parents=True)
    own.write_text(text)
    with pytest.raises(SSTCastError, match=f"{name}: exists and is not a file of sstcast; rename it, or name"):
        planned.check()
    assert own.read_text() == text


def test_what_a_task_raises_is_raised_from_its_process() -> None:
    with pytest.raises(SSTCastError, match=r"absent.yaml: cannot read it"):
        run_tasks([partial(load_config, Path("absent.yaml"))] * 2, 2, None)


def test_no_scores_no_report(here: Path) -> None:
    Path("absent").mkdir()
    (here / "absent/metrics.json").write_text("{}")
    with pytest.raises(SSTCastError, match=r"absent/metrics.json: missing, damaged or from another version; run"):
        Results(Path("absent"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.yaml", "--years", "2005:2008"], "absent.yaml"),
        (["a.yaml"], "--years"),
        (["--years", "2005:2008"], "CONFIG"),
        *((["a.yaml", "--years", years], f"--years {years}: write the first and the last year forecast")
          for years in ("2008:2005", "2005", "a:b", "9000:9999")),
        (["a.yaml", "--years", "2005:2008", "--fold", "5"], "--fold 5: is longer than the 4 years"),
        *((["a.yaml", "--years", "2005:2008", *wrong.split()], wrong.split()[0])
          for wrong in ("--fold 0", "--validation 0", "--every 0", "--every 367")),
        (["a.yaml", "--years", "2005:2008", "--seeds", "x"], "--seeds x"),
        (["a.yaml", "--years", "2005:2008", "--set", "x=1"], "x: unknown key"),
        (["a.yaml", "--years", "2005:2008", "--against", "rigde"], "did you mean 'ridge'?"),
        (["a.yaml", "--years", "2005:2006", "--fold", "2", "--scheduler", "tcp://127.0.0.1:9"],
         "no dask scheduler answers"),
    ],
)  # fmt: skip
def test_command_lines(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[..., None],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.setattr(dask_schedulers, "SCHEDULER_TIMEOUT", "1s")
    Path("a.yaml").write_text(yaml.safe_dump(system("a").model_dump(mode="json")))
    fails([words], "hindcast", *arguments)


def test_another_model_begins_with_its_own_options(here: Path, fails: Callable[..., None]) -> None:
    options = {"memory": True, "stencil": True}
    own = system("own", "local-ridge", options=options).model_dump(mode="json")
    Path("own.yaml").write_text(yaml.safe_dump(own))
    assert load_config(Path("own.yaml")).model.options == options
    Path("lim.yaml").write_text("base: own.yaml\nname: lim\nmodel: {name: lim}\n")
    assert load_config(Path("lim.yaml")).model.options == {}
    Path("same.yaml").write_text("base: own.yaml\nmodel: {stencil: false}\n")
    assert load_config(Path("same.yaml")).model.options == {"memory": True, "stencil": False}
    Path("wrong.yaml").write_text("base: own.yaml\nname: wrong\nmodel: {name: lim, memory: true}\n")
    for verb in (["hindcast", "own.yaml", "wrong.yaml", "--years", "2005:2008"], ["train", "wrong.yaml"]):
        fails(["wrong.yaml: model lim: memory: unknown key"], *verb)
    assert not Path("prepared").exists()
    assert not Path("runs").exists()


def test_every_shipped_system_can_be_hindcast_on_another_ocean(here: Path) -> None:
    changes = [
        "data.source=small.nc",
        "data.region={lon: [170, 173], lat: [-12, -10], tile: [8, 12]}",
        "data.splits={train: [2001, 2003], validation: [2004, 2004], test: [2005, 2005]}",
    ]
    files = [file for folder in ("linear", "linear-base", "models") for file in CONFIGS.glob(f"{folder}/*.yaml")]
    configs = [trainable(file, changes) for file in files]
    chosen = Protocol(2005, 2008, 2, 1, EVERY)
    oceans = {config.name: config for config in configs}
    Plan(Hindcast(Path("hindcast")), chosen, list(oceans.values()), []).check()
    assert {"lim", "tfnet-share", "local-memory-stencil", "sat"} <= {config.name for config in configs}


def test_members_that_saved_nothing_are_dropped(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(system("a"), seeds=(0, 1))
    for run in planned.trained:
        ensemble(run, planned.seeds)
    fewer = replace(planned, seeds=[0])
    saved = Run(planned.run(planned.systems[0], planned.protocol.folds[0]).folder / "seed-1")
    (saved.checkpoints / "step-2.pt").touch()
    with pytest.raises(SSTCastError, match="fold-2005: holds seed-1; give the original --seeds"):
        hindcast(fewer)
    (saved.checkpoints / "step-2.pt").unlink()

    def stop(tasks: list[partial[str]], *_: object) -> None:
        raise SSTCastError(", ".join(task.args[0].name for task in tasks if task.func is train_run))

    monkeypatch.setattr(hindcasts, "run_tasks", stop)
    with pytest.raises(SSTCastError, match=r"^seed-0, seed-0$"):
        hindcast(fewer)
    assert [member.folder.name for run in planned.trained for member in Run(run.folder).members] == ["seed-0"] * 2


def test_there_are_no_more_processes_than_tasks_or_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def processes(count: int, *_: object) -> contextlib.AbstractContextManager[ThreadPoolExecutor]:
        asked.append(count)
        return ThreadPoolExecutor(1)

    monkeypatch.setattr(executors, "processes", processes)
    for room in (9, 2):
        monkeypatch.setattr(executors, "most_processes", lambda room=room: room)
        run_tasks([partial(str, number) for number in range(3)], 1001, None)
    assert asked == [3, 2]
    assert workers.most_processes() >= 1


def test_a_system_whose_errors_are_nan_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {"a": np.nan, "b": 2.0, "c": 1.0}
    monkeypatch.setattr(fold, "combine_runs", lambda parts, *_, **__: f"{parts[0]}")
    monkeypatch.setattr(fold, "_squared_error", lambda run, every: errors[run])
    monkeypatch.setattr(fold.Run, "open", lambda path: path.parent.name)
    config = system("selected")
    parts = {Path(name, "fold"): [Path(name, "one"), Path(name, "two")] for name in errors}
    assert fold.select_run(parts, config, 1).endswith("chosen: c")
    errors |= dict.fromkeys("bc", np.nan)
    with refused("all errors of --select before this fold are NaN"):
        fold.select_run(parts, config, 1)
