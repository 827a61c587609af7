"""The command line as a user meets it: what it prints, and how it ends."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from typer.main import get_command

import sstcast as api
from sstcast import __version__, cli
from sstcast.config import load_config
from sstcast.errors import Interrupted, SSTCastError
from sstcast.graphs.graph import check_memory
from sstcast.log import LOG, reporting, silent
from sstcast.options import COMMAS
from sstcast.runs import Run
from sstcast.training import train as training

Command = Callable[..., tuple[int, str, str]]


def test_quiet_and_verbose_change_what_is_printed(run_yaml: Path, command: Command) -> None:
    _, shown, _ = command("prepare", run_yaml)
    _, verbose, _ = command("prepare", run_yaml, "--verbose")
    _, quiet, _ = command("--quiet", "prepare", run_yaml)
    assert ("days written" in shown, "nothing to do" in verbose, quiet) == (True, True, "")
    code, verbose, _ = command("train", run_yaml, "--verbose")
    assert code == 0
    assert "training on cpu with 32-true, 1 thread" in verbose


def test_warnings_reach_standard_error_in_python_too(capsys: pytest.CaptureFixture[str]) -> None:
    LOG.info("a step")
    LOG.warning("a warning\x1b")
    with reporting():
        LOG.info("a step of a long task")
        with silent():
            LOG.info("a step within another")
    out, err = capsys.readouterr()
    assert (out, err) == ("a step of a long task\n", "a warning\\x1b\n")


def test_lists_do_not_wait_for_libraries(command: Command, run_yaml: Path, tmp_path: Path) -> None:
    """In one process, each verb may add what it needs and no more."""
    Run.create(load_config(run_yaml, ["model={name: mlp}", f"runs={tmp_path}/runs"]))
    command("fetch", "--source", "sample", "--end", "1982-01-03", "--out", tmp_path / "data/some.zarr")
    heavy = ["torch", "torch_geometric", "xarray", "pandas", "numpy", "matplotlib", "sklearn", "zarr", "h5py"]
    says = {"--help": "evaluate", "runs": "small", "status": "some.zarr"}
    code = f"""
import sys
from sstcast.cli import main
for verb in {list(says)}:
    sys.argv = ["sstcast", verb]
    try:
        main()
    except SystemExit as end:
        print("HEAVY", *({set(heavy)} & set(sys.modules)), flush=True)
        assert not end.code
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert out.returncode == 0
    parts = out.stdout.split("HEAVY")
    for part, word in zip(parts, says.values(), strict=False):
        assert word in part
    loaded = [set(part.splitlines()[0].split()) for part in parts[1:]]
    assert loaded[0] == set()
    assert loaded[1] <= {"numpy"}
    assert loaded[2] <= {"numpy", "zarr", "xarray", "pandas"}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.region.tile=[2, 3]", ["tile 0", "all land"]),
        (
            "data.region={lon: [170, 170.75], lat: [-12, -11.5], tile: [2, 3], land_tiles: keep}",
            ["data.region", "no ocean in 170,170.75,-12,-11.5"],
        ),
        (
            "data.region={lon: [170, 170.25], lat: [-12, -10], tile: [8, 1]}",
            ["data.region", "one row or column of cells"],
        ),
        ("data.splits.test=[2030, 2031]", ["data.splits.test", "outside the data"]),
        ("data.splits.test=[2004-01-01, 2004-01-15]", ["data.splits.test", "16"]),
        ("data.splits.train=[2001-03-01, 2001-12-31]", ["data.splits.train", "needs a year"]),
        ("data.region.tile=[5, 5]", ["not whole tiles of 5 x 5", "data.region"]),
        ("data.region={lon: [170, 173], lat: [-12, -10]}", ["fewer than a tile of 30 x 30", "data.region.tile"]),
    ],
)
def test_bad_input_to_prepare(
    fails: Callable[..., None], run_yaml: Path, stores: Path, override: str, words: list[str]
) -> None:
    fails(words, "prepare", run_yaml, "--set", override)
    assert not [path for path in stores.rglob("*") if path.suffix == ".zarr" or "partial" in path.name]


def test_bad_input_to_the_other_verbs(
    command: Command, fails: Callable[..., None], run_yaml: Path, tmp_path: Path
) -> None:
    run = tmp_path / "runs/small"
    fails(["absent.yaml"], "train", tmp_path / "absent.yaml")
    fails(["runs/small", "not a run"], "evaluate", run)
    command("prepare", run_yaml)
    fails(["model.name", "'mpnn'"], "train", run_yaml, "--set", "model.name=mpn")
    assert not run.exists()
    fails(["widht", "'width'"], "train", run_yaml, "--set", "model.widht=8")
    assert not run.exists()
    command("train", run_yaml)
    assert "nothing to do" in command("train", run_yaml, "--set", "training.keep=3")[1]  # the same run
    fails(["training.skip_nonfinite", "unknown key"], "train", run_yaml, "--set", "training.skip_nonfinite=3")
    fails(["small", "configuration (training.seed differs)"], "train", run_yaml, "--set", "training.seed=7")
    checkpoint = torch.load(run / "checkpoints/best.pt", weights_only=True)
    checkpoint["model"] = {"other": torch.zeros(3)}
    torch.save(checkpoint, run / "checkpoints/best.pt")
    fails(["best.pt", "holds other weights"], "evaluate", run)
    assert not (run / "metrics.json").exists()
    (run / "checkpoints/best.pt").write_bytes(b"cut")
    fails(["best.pt", "cannot be read"], "evaluate", run)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["trian"], "'train'"),
        (["prepare"], "CONFIG"),
        (["fetch", "--start", "soon"], "--start"),
        (["map", "--x"], "--x"),
    ],
)
def test_wrong_arguments(fails: Callable[..., None], arguments: list[str], word: str) -> None:
    fails([word], *arguments)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (
            "forecast run --date 2023-01-01 --samples 9 --date=2024-01-01",
            "--date: given more than once (2023-01-01 and 2",
        ),
        ("forecast run --samples --samples 5", "--samples: given more than once (100 and 5)"),
        (
            "evaluate run --against ridge --against ridge",
            "--against: given more than once (ridge and ridge); give it",
        ),
        ("hindcast a.yaml b.yaml --years 2001:2005 --fold 1 --fold 2 --fold 3", "(1 and 2 and 3)"),
        ("train a.yaml --seeds 0 --seeds 1", "(0 and 1); give it once, with values separated by commas"),
        ("train a.yaml --set a.b=1 --set c=1 --set a.b=2", "--set a.b: given more than once (1 and 2)"),
    ],
)
def test_of_an_option_given_twice_no_value_is_dropped(
    fails: Callable[..., None], arguments: str, values: str
) -> None:
    fails([values], *arguments.split())


def test_lists_may_be_given_again_and_help_goes_first(command: Command, fails: Callable[..., None]) -> None:
    fails(["absent.yaml"], "train", "absent.yaml", "--set", "a=1", "--set", "b=2")
    fails(["did you mean 'ridge'"], "score", "absent.nc", "--against", "persistence", "--against", "rigde")
    assert command("forecast", "--date", "2023-01-01", "--date", "2024-01-01", "--help")[0] == 0


def test_options_whose_help_names_commas_are_told_so_if_given_twice() -> None:
    commands = get_command(cli.app).commands.values()  # type: ignore[attr-defined]
    options = {(option.name, getattr(option, "help", "") or "") for each in commands for option in each.params}
    assert {name for name, _ in options} >= COMMAS
    assert {name for name, text in options if "separated by commas" in text} <= COMMAS


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"{__version__}\n", "")


def test_fetch_and_status(command: Command, tmp_path: Path) -> None:
    store = tmp_path / "sample.zarr"
    fetch = ("fetch", "--source", "sample", "--start", "1982-01-01", "--end", "1982-02-15", "--out", store)
    assert f"{tmp_path}: no fetched days; run `sstcast fetch`" in command("status", tmp_path)[1]
    assert command(*fetch)[0] == 0
    code, out, _ = command(*fetch)
    assert code == 0
    assert "nothing to do" in out
    assert "46 days, 1982-01-01..1982-02-15" in command("status", tmp_path)[1]
    late = ("--start", "2016-12-25", "--end", "2017-01-02", "--out", tmp_path / "late.zarr")
    code, out, _ = command("fetch", "--source", "sample", *late)  # beyond the sample's last day
    assert code == 3
    assert "2017-01-02" in out


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["sstcast", "train", str(tmp_path / "absent.yaml"), "--debug"])
    with pytest.raises(SSTCastError):
        cli.main()


@pytest.mark.parametrize(("first", "code"), [(True, 143), (False, 0)])
def test_of_interrupted_processes_the_first_one_reports_it(
    command: Command, run_yaml: Path, monkeypatch: pytest.MonkeyPatch, first: bool, code: int
) -> None:
    monkeypatch.setattr(cli, "FIRST_PROCESS", first)
    monkeypatch.setattr(training, "training_windows", lambda config, prepared: {})
    monkeypatch.setattr(training, "train", Mock(side_effect=Interrupted(15)))
    got, _, err = command("train", run_yaml)
    assert (got, "re-run the command to resume" in err) == (code, first)


def test_a_shell_completes_commands(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"_SSTCAST_COMPLETE": "complete_bash", "COMP_WORDS": "sstcast le", "COMP_CWORD": "1"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    assert command() == (0, "leaderboard\n", "")


def test_doctor_names_what_is_missing(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in ("ogb", "dask"):
            raise metadata.PackageNotFoundError
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    code, out, err = command("doctor")
    assert code == 2
    assert err.startswith("sstcast: missing or too old: dask")
    assert f"torch {real('torch')}" in out
    assert "molecules given as SMILES: ogb; run `pip install 'sstcast[benchmarks]'`" in out


def test_doctor_examines_a_copy_that_is_not_installed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    code, out, err = command("doctor")
    assert (code, err) == (0, "")
    assert "not installed" in out


def test_a_device_out_of_memory_is_told_as_an_array_too_large() -> None:
    with pytest.raises(SSTCastError) as refused:
        check_memory("scores", 2**60)
    code, text = cli.explain(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert code == 2
    assert text.partition("; ")[2] == str(refused.value).partition("; ")[2]


def test_home_is_found_where_the_shell_leaves_the_tilde(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for arguments in (("train", "~/absent"), ("train", "--resume=~/absent"), ("init", "~/absent")):
        assert f" {tmp_path}/absent: " in command(*arguments)[2]
    for opened in (api.load_config, api.load, api.evaluate, api.forecast):
        with pytest.raises(SSTCastError, match=f"^{tmp_path}/absent"):
            opened("~/absent")


def test_only_a_terminal_names_the_next_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes = os.openpty()
    subprocess.run([sys.executable, "-m", "sstcast.cli"], stdout=subprocess.DEVNULL, stderr=writes, check=False)
    assert b"next: sstcast train configs/demo.yaml" in os.read(reads, 10_000)
    cli._trained(Run(Path("runs/mine")), {})
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    cli._trained(Run(Path("runs/mine")), {})
    assert capsys.readouterr().err == "next: sstcast evaluate runs/mine\n"
