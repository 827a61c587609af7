"""What is made once for all workers."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from made_once import once


def test_one_makes_and_all_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    makes: list[Path] = []

    def make(folder: Path) -> None:
        makes.append(folder)
        time.sleep(0.1)
        (folder / "file").write_text("whole")

    with ThreadPoolExecutor(3) as threads:
        folders = list(threads.map(lambda _: once(tmp_path_factory, "made_once", make), range(3)))
    assert makes == folders[:1]
    assert {(folder, (folder / "file").read_text()) for folder in folders} == {(makes[0], "whole")}


def test_what_failed_half_way_is_made_anew(tmp_path_factory: pytest.TempPathFactory) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        once(tmp_path_factory, "made_anew", fail)
    folder = once(tmp_path_factory, "made_anew", lambda folder: (folder / "file").touch())
    assert [path.name for path in folder.iterdir()] == ["file"]
