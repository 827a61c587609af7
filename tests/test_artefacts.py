import subprocess
import sys
from pathlib import Path

import pytest

from sstcast.storage.artefacts import atomic, locked


@pytest.mark.parametrize("folder", [False, True])
def test_a_failed_write_leaves_what_was_there(tmp_path: Path, folder: bool) -> None:
    path = tmp_path / "thing"

    def write(target: Path, text: str) -> None:
        if folder:
            target.mkdir()
            target = target / "provenance.json"  # without it, the folder would be the user's
        target.write_text(text)

    with atomic(path) as temporary:
        write(temporary, "old")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        write(temporary, "half")
        raise RuntimeError
    assert (path / "provenance.json" if folder else path).read_text() == "old"
    with atomic(path) as temporary:
        write(temporary, "new")
    assert (path / "provenance.json" if folder else path).read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def in_another_process(path: Path, inside: str) -> "subprocess.Popen[str]":
    """Run a line alone with `path`."""
    program = f"""
from pathlib import Path
from sstcast.storage.artefacts import locked
path = Path({str(path)!r})
with locked(path):
    {inside}
"""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", program], text=True, **pipes)


def test_another_process_waits_and_sees_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new/thing"
    with locked(path):
        other = in_another_process(path, "print(path.read_text())")
        assert other.stderr is not None
        assert other.stderr.readline() == f"{path}: another process is writing it; waiting\n"
        path.write_text("written")
    assert other.communicate(timeout=60) == ("written\n", "")


def test_a_killed_process_keeps_nobody_waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_another_process(tmp_path / "thing", "print('there', flush=True); input()") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        other.kill()
    with locked(tmp_path / "thing"):
        assert capsys.readouterr().err == ""
