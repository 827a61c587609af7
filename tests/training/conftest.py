"""Shares prepared stores among the tests of this folder."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")
