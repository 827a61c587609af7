"""The command `table`: the papers' tables of scores on graphs, cell by cell."""

import json
import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import pytest

import sstcast
from sstcast.benchmarks import paper_tables as paper_tables_module
from sstcast.benchmarks.paper_tables import Trial, choose, fit, paper_tables, plan
from sstcast.storage.artefacts import write_json

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def options(root: Path, tmp_path: Path) -> list[object]:
    """One epoch for each run, on the tiny data of the other tests."""
    keys = ("training.epochs=1", "training.device=cpu", f"cache={root / 'cache'}")
    sets = [part for key in keys for part in ("--set", key)]
    return ["--root", root, "--out", tmp_path / "runs", "--seeds", "0..1", *sets]


def rows_of(out: str, dataset: str) -> dict[str, list[str]]:
    """The columns after the model's, by model."""
    lines = [re.split(r"  +", line.strip()) for line in out.splitlines() if line.startswith(dataset)]
    return {model: cells for _, model, *cells in lines}


def test_tables_are_listed(command: Command) -> None:
    code, out, _ = command("table")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(paper_tables())
    assert len(re.findall(r"PROTEINS.* 85 cells", out)) == 1


def test_cells_are_those_of_the_table() -> None:
    """Table 2 of KDLGT: ten rows and DGT on the sets of nodes, less five without memory and three not reported."""
    cells = paper_tables()["kdlgt:2"]
    assert len(cells) == 9 * 10 + 4 - 5 - 3 - 1 == 85
    assert {cell.row for cell in cells if cell.missing} == {"gkat", "dgt"}
    [molhiv] = choose(cells, ["ogbg-molhiv"], ["gps"])
    assert (molhiv.score, molhiv.missing) == (0.788, None)
    [zinc] = choose(cells, ["zinc"], ["lsat"])
    assert zinc.remark == "on about 250,000 molecules"
    assert {cell.remark for cell in paper_tables()["mpnn-gt:4"] if cell.row == "gine"} == {"GIN"}


def test_a_table_is_repeated_beside_the_paper_s_and_resumes(
    options: list[object], tmp_path: Path, command: Command
) -> None:
    chosen = ["table", "kdlgt:2", "--datasets", "mutag", "--models", "lsat,gps-rwse,gkat", *options]
    code, out, err = command(*chosen)
    assert code == 0, err
    rows = rows_of(out, "MUTAG")
    for model, paper in (("lsat-paper", "0.9018"), ("gps-rwse", "0.9138")):  # with the paper's training, if known
        files = [tmp_path / f"runs/MUTAG/{model}/seed-{seed}/metrics.json" for seed in (0, 1)]
        runs = [json.loads(file.read_text()) for file in files]
        ours = [run["test"] for run in runs]
        seconds = f"{mean(run['seconds'] for run in runs):.0f}"
        weights = f"{runs[0]['parameters']:,}"
        assert rows[model] == [paper, f"{mean(ours):.4f} ± {stdev(ours):.4f}", "2 of 2", weights, seconds]
    assert rows["gkat"][-1] == "no such model here"
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.*")}
    code, out, _ = command(*chosen)
    assert (code, out.count("nothing to do")) == (0, 4)
    assert rows_of(out, "MUTAG") == rows
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.*")} == before


def test_a_dry_run_trains_nothing_and_tells_what_is_at_hand(
    options: list[object], tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = ["training.epochs=7200" if option == "training.epochs=1" else option for option in options]
    chosen = ["--datasets", "mutag,citeseer", "--models", "lsat,dgt", *longer]
    code, out, err = command("table", "kdlgt:2", "--dry-run", *chosen)
    assert code == 0, err
    assert not (tmp_path / "runs").exists()
    assert rows_of(out, "MUTAG")["lsat-paper"] == ["0.9018", "yes", "2", "7,200"]
    assert rows_of(out, "CiteSeer")["lsat-paper"] == ["0.7403", "no", "2", "7,200"]
    assert rows_of(out, "CiteSeer")["dgt"][-1] == "no such model here"
    assert out.splitlines()[-1] == "4 runs left; not at hand: CiteSeer"
    command("table", "kdlgt:2", "--datasets", "mutag", "--models", "lsat", *options)
    monkeypatch.setattr("sstcast.benchmarks.run.load", None)  # would be called otherwise
    _, out, _ = command("table", "kdlgt:2", "--dry-run", "--datasets", "mutag", "--models", "lsat", *options)
    assert rows_of(out, "MUTAG")["lsat-paper"] == ["0.9018", "yes", "0", "1"]
    assert out.splitlines()[-1] == "0 runs left"


def test_a_cell_that_cannot_be_trained_does_not_stop_the_others(options: list[object], command: Command) -> None:
    """The pickles of the tiny Cora are not known to be harmless."""
    code, out, _ = command("table", "kdlgt:2", "--datasets", "cora,mutag", "--models", "sat", *options)
    assert code == 3
    assert len(re.findall(r"Cora/sat-paper/seed-.: not run: .*pickle", out)) == 2
    assert rows_of(out, "Cora,")["sat-paper"][1:3] + rows_of(out, "Cora,")["sat-paper"][-1:] == [
        "-",
        "0 of 2",
        "not run",
    ]
    assert rows_of(out, "MUTAG")["sat-paper"][2] == "2 of 2"


def test_a_score_of_other_data_is_not_printed(options: list[object], tmp_path: Path, command: Command) -> None:
    chosen = ["table", "kdlgt:2", "--datasets", "mutag", "--models", "sat", *options]
    assert command(*chosen)[0] == 0
    record = tmp_path / "runs/MUTAG/sat-paper/seed-0/data.json"
    write_json(record, {"graphs": "0" * 64, "weighted": False})
    code, out, err = command(*chosen)
    assert (code, rows_of(out, "MUTAG,")) == (2, {})
    assert "trained on other data" in err


def test_memory_that_runs_out_ends_a_cell_and_a_bug_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    [trial] = plan(choose(paper_tables()["kdlgt:2"], ["PubMed"], ["sat"]), [0], None, [])

    def raising(text: str) -> str:
        def stop(*_: object) -> None:
            raise RuntimeError(text)

        monkeypatch.setattr(paper_tables_module, "run_benchmark", stop)
        return fit(*trial.runs)

    assert raising("DefaultCPUAllocator: can't allocate memory: you tried").endswith(
        "can't allocate memory: you tried"
    )
    with pytest.raises(RuntimeError, match="shapes"):
        raising("shapes cannot be multiplied")


def test_a_changed_model_does_not_stand_beside_the_paper_s_number(options: list[object], root: Path) -> None:
    found = sstcast.table(
        "kdlgt:2", ["MUTAG"], "sat", 0, root, ["model.width=8", "cache=cache"], "runs", dry_run=True
    )
    assert [(cell["published"], cell["test"], cell["left"]) for cell in found.value] == [(None, [], 1)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["kdlgt:3"], "did you mean 'kdlgt:2'"),
        (["kdlgt:2", "--datasets", "mutga"], "--datasets mutga: not in the table (did you mean 'MUTAG'?)"),
        (["kdlgt:2", "--datasets", "MUTAG", "--models", "dgt"], "none of them on these data sets"),
        (["kdlgt:2", "--datasets", "MUTAG", "--set", "model.hosp=2"], "hosp"),
        (["kdlgt:2", "--datasets", "MUTAG", "--set", "label=mine"], "choose another --out"),
        (["mpnn-gt:5"], "no table 'mpnn-gt:5'"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str, tmp_path: Path, fails: Callable[..., None]) -> None:
    fails([words], "table", *arguments, "--root", tmp_path, "--out", tmp_path / "runs")
    assert not list(tmp_path.iterdir())


def test_runs_can_be_sent_to_other_processes() -> None:
    [trial] = plan(choose(paper_tables()["kdlgt:2"], ["MUTAG"], ["sat"]), [4], None, [])
    assert isinstance(trial, Trial)
    task = pickle.loads(pickle.dumps(partial(fit, *trial.runs)))
    assert task.args[0].training.seed == 4
