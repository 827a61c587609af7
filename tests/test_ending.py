"""How commands end: an exit code and at most one line, whatever happens inside."""

import errno
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from refusals import refused

from sstcast import cli
from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.ocean.prepare import prepare
from sstcast.storage.artefacts import atomic, check_own, is_intact, is_up_to_date, locked, noted
from sstcast.storage.paths import below

Fails = Callable[[BaseException], tuple[int, str]]


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fails:
    """Run a command in which an error is raised; return exit code and stderr."""

    def run(error: BaseException) -> tuple[int, str]:
        monkeypatch.setattr("sstcast.training.run_list.list_runs", Mock(side_effect=error))
        monkeypatch.setattr(sys, "argv", ["sstcast", "runs"])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (SSTCastError("a.yaml: wrong"), 2, "a.yaml: wrong"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.EDQUOT, "Quota", "a.zarr"), 2, "sstcast: a.zarr: no space left on the disk;"),
        (PermissionError(13, "Permission denied", "x.nc"), 2, "x.nc: Permission denied"),
        (MemoryError("Unable to allocate 7 TiB"), 2, "not enough memory (Unable to allocate 7 TiB)"),
        (RuntimeError("[enforce fail] can't allocate memory: you tried\nframe #0"), 2, "not enough memory"),
        (KeyError("x"), 70, "KeyError: 'x'; this is a bug: run with --debug and report it"),
        (ZeroDivisionError(), 70, "ZeroDivisionError: ZeroDivisionError; this is a bug"),
        (RecursionError("maximum recursion depth"), 70, "RecursionError: maximum recursion depth; this is a bug"),
        (SSTCastError("one\ntwo \x1b[31mred"), 2, "one two \\x1b[31mred"),
        (SSTCastError("x" * 10**6), 2, "xxx..."),
    ],
)
def test_every_error_is_one_line(fails: Fails, error: BaseException, code: int, words: str) -> None:
    got, err = fails(error)
    assert got == code
    assert words in err
    assert err.count("\n") == 1
    assert len(err) < 2100


def test_a_closed_pipe_ends_quietly(fails: Fails) -> None:
    assert fails(BrokenPipeError(errno.EPIPE, "Broken pipe")) == (1, "")


def test_what_is_no_text_is_printed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    monkeypatch.setattr(sys, "argv", ["sstcast", "models"])
    monkeypatch.setattr("sstcast.models.factory.LINEAR", {})
    monkeypatch.setattr("sstcast.models.factory.MODELS", {"°\udcff": type("Entry", (), {"about": "x"})})
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    assert raw.getvalue().startswith(rb"\xb0\udcff")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "x"), RuntimeError("No space left on device")])
def test_a_full_disk_while_a_file_is_written(tmp_path: Path, error: Exception) -> None:
    with (
        pytest.raises(SSTCastError, match=r"thing: no space left on the disk"),
        atomic(tmp_path / "thing") as part,
    ):
        part.write_text("half")
        raise error
    assert not list(tmp_path.iterdir())


def test_netcdf_does_not_say_why_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(SSTCastError, match=r"a.nc: cannot be written .*quota is full"), atomic(tmp_path / "a.nc"):
        raise RuntimeError("NetCDF: HDF error")


def test_links_to_stores_are_followed_and_links_to_files_replaced(tmp_path: Path) -> None:
    """What a file's link leads to is not touched. A store follows it to nothing, or to its own."""
    (thesis := tmp_path / "thesis.nc").write_text("mine")
    (tmp_path / "kept.nc").symlink_to(thesis)
    (tmp_path / ".kept.nc.note").symlink_to(thesis)
    (tmp_path / ".kept.nc.lock").symlink_to(thesis)
    with locked(tmp_path / "kept.nc"), noted(tmp_path / "kept.nc", "x") as part:
        part.write_text("new")
    assert thesis.read_text() == "mine"
    assert is_up_to_date(tmp_path / "kept.nc", "x", strictly=True)
    assert not any(path.is_symlink() for path in tmp_path.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.nc", "kept.nc", ".kept.nc.note", ".kept.nc.lock"}

    (disk := tmp_path / "disk").mkdir()
    (disk / "empty").mkdir()
    for name in ("missing", "empty"):
        (link := tmp_path / f"{name}.zarr").symlink_to(disk / name)
        for attempt in range(2):  # at the second, it is sstcast's own
            with noted(link, "x") as part:
                part.mkdir()
                (part / ".zgroup").write_text(str(attempt))
        assert link.is_symlink()
        assert [path.read_text() for path in (disk / name).iterdir()] == ["1"]
        assert is_up_to_date(link, "x")


def test_a_folder_of_the_user_is_never_moved(tmp_path: Path) -> None:
    (mine := tmp_path / "mine").mkdir()
    (mine / "thesis.tex").write_text("mine")
    (tmp_path / "a.zarr").symlink_to(mine)
    (tmp_path / ".mine.note").write_text('{"recipe": 0, "fingerprint": "", "changes": "", "digest": ""}')
    (tmp_path / "b.nc").mkdir()
    (tmp_path / "b.nc/thesis.tex").write_text("mine")
    (tmp_path / "file.zarr").symlink_to(mine / "thesis.tex")
    (tmp_path / "loop.zarr").symlink_to(tmp_path / "loop.zarr")
    for name, words in (
        ("a.zarr", f"{mine}: is a folder that sstcast did not write; rename or delete it"),
        ("b.nc", "b.nc: is a folder that sstcast did not write"),
        ("file.zarr", "file.zarr: is a file where a store belongs; rename or delete it"),
        ("loop.zarr", "loop.zarr: is a link that leads back to itself; delete it"),
    ):
        with refused(words), noted(tmp_path / name):
            pytest.fail("it is written")
    (late := tmp_path / "late.nc")
    with refused("late.nc: is a folder that sstcast did not write"), atomic(late) as part:
        part.touch()
        late.mkdir()
        (late / "thesis.tex").touch()
    files = [file for folder in (mine, tmp_path / "b.nc", late) for file in folder.iterdir()]
    assert [file.name for file in files] == ["thesis.tex"] * 3
    assert [path.name for path in tmp_path.glob(".*")] == [".mine.note"]


def test_pipes_are_absent(tmp_path: Path) -> None:
    for suffix in (".nc", ".json", ".html", ".png"):
        path = tmp_path / f"a{suffix}"
        for name in (path.name, f".{path.name}.note", f".{path.name}.lock"):
            os.mkfifo(tmp_path / name)
        assert not is_up_to_date(path, "x")
        with refused(path, "is not a file of sstcast"):
            check_own(path, "rename it", *["name,"] * (suffix == ".html"))
        with locked(path), noted(path, "x") as part:
            part.touch()
        assert is_up_to_date(path, "x", strictly=True)
    (store := tmp_path / "a.zarr").mkdir()
    with noted(store, "x") as part:
        part.mkdir()
        (part / "0").touch()
    (store / "0").unlink()
    os.mkfifo(store / "0")
    assert not is_intact(store)


def test_what_lies_behind_links_is_found_once(tmp_path: Path) -> None:
    run = tmp_path / "elsewhere/run"
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    (run / "round").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs/.hidden").mkdir(parents=True)
    (tmp_path / "runs/.hidden/config.yaml").touch()
    (tmp_path / "runs/here").symlink_to(run)
    assert below(tmp_path / "runs", "config.yaml") == [tmp_path / "runs/here/config.yaml"]


SLOW = """
import sys, time
from pathlib import Path
from unittest.mock import patch
from sstcast import cli
from sstcast.storage.artefacts import atomic

def write():
    with atomic(path) as part:
        part.touch()
        print("begun", flush=True)
        time.sleep(60)

path, sys.argv[1:] = Path(sys.argv[1]), ["runs"]
with patch("sstcast.training.run_list.list_runs", lambda *_: write()):
    cli.main()
"""


def test_sigterm_ends_a_command_as_ctrl_c_does(tmp_path: Path) -> None:
    for number, code in (2, 130), (15, 143):
        command = [sys.executable, "-c", SLOW, tmp_path / "a.nc"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert list(tmp_path.iterdir()) == [tmp_path / ".a.nc.partial"]
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code
        assert err == "sstcast: interrupted; re-run the command to finish\n"
        assert not list(tmp_path.iterdir())


def test_interrupted_training_says_how_to_continue(run_yaml: Path) -> None:
    """A real Ctrl-C on a real process."""
    command = [sys.executable, "-m", "sstcast.cli"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    prepare(load_config(run_yaml).data)
    settings = ["training.epochs=100000", "training.checkpoint_steps=5", "training.compile=false"]
    long = [*command, "train", run_yaml, *(word for setting in settings for word in ("--set", setting))]
    process = subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    history = run_yaml.parent / "runs/small/history.csv"
    while not history.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "re-run the command to resume" in err
    assert "Traceback" not in err
    assert (history.parent / "checkpoints/best.pt").exists()
    assert list((history.parent / "checkpoints").glob("step-*.pt"))
