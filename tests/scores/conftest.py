"""Every file of tests works in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder: a truth is prepared once for all files that are scored in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(inside := tmp_path_factory.mktemp("inside"))
        yield inside
