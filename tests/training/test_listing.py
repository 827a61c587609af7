from pathlib import Path

import pytest
from runs_of_training import setup

from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.runs import Run
from sstcast.storage.yaml_files import parse_seeds
from sstcast.training.run_list import describe, list_runs
from sstcast.training.train import plan, train


def test_ensembles_resume_and_are_listed(run_yaml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, windows = setup(run_yaml)
    members = plan(load_config(run_yaml, ["training.epochs=1"]), None, [0, 1], [])
    assert [(c.name, c.training.seed) for c in members] == [("seed-0", 0), ("seed-1", 1)]
    run, _ = train(members[0], windows)
    ensemble = Run(run.folder.parent)
    train(members[1], windows)
    best = ensemble.members[1].best
    content = best.read_bytes()
    best.unlink()
    with pytest.raises(SSTCastError, match=r"seed-1.*no checkpoint yet"):
        Run.open(ensemble.folder)
    best.write_bytes(content)
    assert Run.open(ensemble.folder).members == ensemble.members
    assert plan(None, ensemble.folder, None, []) == members
    assert [describe(member)["state"] for member in ensemble.members] == ["finished"] * 2
    capsys.readouterr()
    list_runs(ensemble.folder.parent)
    listed = capsys.readouterr().out
    assert "seed-0" in listed
    assert "mpnn-vn" in listed
    with pytest.raises(SSTCastError, match=r"is an ensemble; continue it with --resume"):
        train(load_config(run_yaml, ["training.epochs=1"]), windows)


def test_an_interrupted_ensemble_remembers_members_not_begun(run_yaml: Path) -> None:
    members = plan(load_config(run_yaml), None, [0, 1, 2], [])
    ensemble = Run(run_yaml.parent / "runs/small")
    assert plan(None, ensemble.folder, None, []) == members
    with pytest.raises(SSTCastError, match=r"seed-0.*no checkpoint yet"):
        Run.open(ensemble.folder)


def test_a_moved_run_goes_on(run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, windows = setup(run_yaml, "training.epochs=1")
    run, _ = train(config, windows)
    moved = run.folder.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    for folder in (moved, Path("moved")):
        assert train(plan(None, folder, None, [])[0], windows) == (Run(folder), False)
    assert not run.folder.exists()
    for key in ("name", "runs"):
        with pytest.raises(SSTCastError, match=rf"--resume {moved}.*leave out --set {key}="):
            plan(None, moved, None, [f"{key}=other"])


def test_odd_folders_hide_no_run(run_yaml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("empty", ""), ("other", "model: {name: gps}"), ("text", "a: [")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").write_text(text)
    for name in ("cut", "good"):
        run = Run.create(load_config(run_yaml, [f"name={name}"]))
    (tmp_path / "runs/cut/history.csv").write_text("epoch,train_loss,learning_rate,validation_mse,best,sec")
    list_runs(tmp_path / "runs")
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert all("cannot be read" in listed[name] for name in ("empty", "other", "text", "cut"))
    assert "epoch 0 of 2" in listed[run.folder.name]


def test_seeds(run_yaml: Path) -> None:
    for text, seeds in {"0..3": [0, 1, 2, 3], "7": [7], "0,2,5": [0, 2, 5]}.items():
        assert parse_seeds(text) == seeds
    for text in ("", "x", "3..1", "-1", "1,1", "0..10000", f"0..{10**30}", str(2**63)):
        with pytest.raises(SSTCastError, match=r"write 0\.\.4"):
            parse_seeds(text)
    assert load_config(run_yaml, [f"training.seed={2**63 - 1}"])
    with pytest.raises(SSTCastError, match=r"training\.seed: .*less than"):
        load_config(run_yaml, [f"training.seed={2**63}"])


def test_arguments_that_do_not_fit(run_yaml: Path, tmp_path: Path) -> None:
    for config, resume, message in (
        (None, None, "give either a YAML"),
        (load_config(run_yaml), tmp_path, "give either a YAML"),
        (None, tmp_path, "not a run"),
    ):
        with pytest.raises(SSTCastError, match=message):
            plan(config, resume, None, [])
    with pytest.raises(SSTCastError, match="no runs; make one"):
        list_runs(tmp_path)
