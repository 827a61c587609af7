"""A finished hindcast for the tests of this folder."""

import os
from pathlib import Path

import pytest
from small_hindcast import quiet, systems, write_ocean

from sstcast.hindcasts.hindcast import hindcast


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished hindcast of two systems, made from its own folder."""
    folder = tmp_path_factory.mktemp("made")
    write_ocean(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert hindcast(systems(), say=quiet)[1]
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def inside(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made
