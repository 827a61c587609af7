"""Raw files that are missing are downloaded, from a server of the test."""

import functools
import http.server
import io
import shutil
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from small_raw import write
from torch_geometric import datasets as pyg

from sstcast.benchmarks import download as downloads
from sstcast.benchmarks.download import download
from sstcast.benchmarks.load import load
from sstcast.benchmarks.registry import find_dataset
from sstcast.errors import SSTCastError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server of the files in `tmp_path/web` on this machine."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


def test_pyg_downloads_what_is_missing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = find_dataset("minesweeper")
    write(dataset, tmp_path)
    shutil.move(tmp_path / dataset.folder, tmp_path / "web")
    monkeypatch.setattr(pyg.HeterophilousGraphDataset, "url", server)
    with pytest.raises(
        SSTCastError, match=r"minesweeper\.npz is missing; `sstcast .*` downloads it .* licence: MIT"
    ):
        load(dataset, tmp_path / "raw", tmp_path / "cache")
    terminal = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(downloads, "get_console", lambda: terminal)
    download(dataset, tmp_path / "raw")
    assert "downloading" in terminal.file.getvalue()  # type: ignore[attr-defined]
    out = capsys.readouterr().out
    assert "10,000 nodes" in out
    assert "licence: MIT" in out
    files = [path for path in (tmp_path / "raw").rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["minesweeper.npz"]
    assert files[0].read_bytes() == (tmp_path / "web/minesweeper.npz").read_bytes()
    monkeypatch.setattr(pyg.HeterophilousGraphDataset, "url", f"{server}/nowhere")
    download(dataset, tmp_path / "raw")  # nothing is missing
    with pytest.raises(SSTCastError, match=r"minesweeper\.npz is missing, and the download from .* failed"):
        download(dataset, tmp_path / "elsewhere")


def test_what_only_a_page_has_is_got_by_hand(tmp_path: Path) -> None:
    download(find_dataset("pokec"), tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(
        SSTCastError, match=r"pokec\.mat is missing; get it by hand from https://drive\.google\.com"
    ):
        load(find_dataset("pokec"), tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(("name", "inside"), [("ogbg-molhiv", "hiv"), ("MUTAG", "MUTAG")])
def test_archives_are_unpacked_where_their_files_belong(
    name: str, inside: str, server: str, tmp_path: Path
) -> None:
    write(find_dataset(name), tmp_path)
    found = find_dataset(name, tmp_path)
    (tmp_path / "web").mkdir()
    with zipfile.ZipFile(tmp_path / "web/all.zip", "w") as archive:
        for path in (path for path in (tmp_path / found.folder).rglob("*") if path.is_file()):
            archive.write(path, f"{inside}/{path.relative_to(tmp_path / found.folder)}")
    raw = tmp_path / "raw"
    first = raw / found.folder / found.names[0]
    first.parent.mkdir(parents=True)
    first.write_bytes((tmp_path / found.folder / found.names[0]).read_bytes())
    before = first.stat().st_ino
    download(replace(find_dataset(name), files=dict.fromkeys(find_dataset(name).files, f"{server}/all.zip")), raw)
    assert first.stat().st_ino == before  # what is there stays
    ours, theirs = load(find_dataset(name, raw), raw, tmp_path / "a"), load(found, tmp_path, tmp_path / "b")
    assert ours.digest == theirs.digest
    assert ours.files == theirs.files
