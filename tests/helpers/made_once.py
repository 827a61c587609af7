"""What several test files read and none changes is made once, for all workers of pytest-xdist."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder `name`, which `make(folder)` has filled in the first worker that asks; others wait.

    Tests only read it: one that writes does so in a copy. The folder has its own name while it is filled, since
    runs and stores hold the paths of their sources; a file beside it says that it is whole.
    """
    root = tmp_path_factory.getbasetemp()
    root = (
        root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    )  # without workers, its parent outlives pytest
    folder, whole = root / name, root / f"{name}.whole"
    with FileLock(root / f"{name}.lock"):
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            whole.touch()
    return folder
