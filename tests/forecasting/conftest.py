"""One place for all that the tests of this folder prepare."""

from pathlib import Path

import pytest
import yaml


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def shared_yaml(run_yaml: Path, stores: Path) -> Path:
    """The run on the small ocean; what is prepared once is there for the next test."""
    raw = yaml.safe_load(run_yaml.read_text())
    raw["data"]["directory"] = str(stores)
    run_yaml.write_text(yaml.safe_dump(raw))
    return run_yaml
