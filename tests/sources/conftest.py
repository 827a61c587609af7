"""Servers for the tests of fetching."""

from collections.abc import Iterator

import pytest
from oisst_server import DAYS, OisstServer, daily_files

from sstcast.sources import remote
from sstcast.sources.noaa import Aws, Ncei


@pytest.fixture(autouse=True)
def _impatient(monkeypatch) -> None:
    monkeypatch.setattr(remote, "ATTEMPTS", 3)
    monkeypatch.setattr(remote, "BACKOFF", 0.01)


@pytest.fixture
def server() -> Iterator[OisstServer]:
    with OisstServer() as running:
        yield running


@pytest.fixture
def aws(server: OisstServer, monkeypatch) -> OisstServer:
    """A server that stands for AWS alone; nothing listens where NCEI should be."""
    monkeypatch.setattr(Aws, "base", server.url)
    monkeypatch.setattr(Ncei, "base", "http://127.0.0.1:1")
    server.files = daily_files(DAYS)
    return server
