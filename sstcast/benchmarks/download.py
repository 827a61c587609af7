"""Downloads raw files that are missing, with PyG's own classes or from the addresses that a declaration names."""

import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import get_console
from rich.progress import DownloadColumn, Progress
from torch_geometric.data import download_url, extract_zip

from sstcast.benchmarks.dataset import BY_HAND, Dataset
from sstcast.benchmarks.formats import pyg
from sstcast.errors import SSTCastError, in_short
from sstcast.terminal import hides_progress

PATIENCE = 60  # seconds without an answer


def download(dataset: Dataset, root: Path) -> None:
    """Download the missing raw files below `root`, after printing their size and licence.

    Do nothing if one of them has no address, or only that of a page.
    Raises SSTCastError, naming the file, if one cannot be had.
    """
    folder = root / dataset.folder
    missing = {path: dataset.files[str(path.relative_to(folder))] for path in dataset.missing(root)}
    if not missing or any(not address or address.startswith(BY_HAND) for address in missing.values()):
        return
    origins = ", ".join(sorted(set(missing.values())))
    print(f"{dataset.name}: downloading to {folder}: {dataset.size}; licence: {dataset.licence}", flush=True)
    first = f"{dataset.name}: {next(iter(missing))} is missing"
    try:
        root.mkdir(parents=True, exist_ok=True)
        place = tempfile.TemporaryDirectory(dir=root)
    except OSError as error:
        raise SSTCastError(
            f"{first}, and {root} cannot be written ({in_short(error)}); name another --root"
        ) from error
    with place as scratch:  # what is interrupted leaves nothing
        try:
            with _bars():
                below = {path.relative_to(root): address for path, address in missing.items()}
                _get(dataset, Path(scratch), below)
        except Exception as error:  # networks and servers fail in many ways
            problem = f"the download from {origins} failed ({in_short(error)})"
            raise SSTCastError(f"{first}, and {problem}; put the files there, or name their --root") from error
        for file in (file for file in sorted(Path(scratch, dataset.folder).rglob("*")) if file.is_file()):
            target = root / file.relative_to(scratch)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                file.rename(target)
    if left := dataset.missing(root):
        raise SSTCastError(f"{dataset.name}: {left[0]} was not in the download from {origins}; get it by hand")


def _get(dataset: Dataset, root: Path, missing: Mapping[Path, str]) -> None:
    for address in sorted(set(missing.values())):
        if address.startswith("PyG's "):
            pyg.download(dataset, root)
        elif Path(address).suffix == ".zip":
            _unpack(address, root / dataset.folder, str(dataset.options.get("archive", "")))
        else:
            for path in (path for path in missing if missing[path] == address):
                download_url(address, str(root / path.parent), filename=path.name)


@contextmanager
def _bars() -> Iterator[None]:
    """Show a bar for each file that `urllib`, which PyG uses, downloads in the `with` block."""
    kept, console = urllib.request.urlopen, get_console()
    columns = *Progress.get_default_columns(), DownloadColumn()
    with Progress(*columns, console=console, transient=True, disable=hides_progress(console)) as progress:

        def urlopen(*arguments: Any, **options: Any) -> Any:
            response = kept(*arguments, **{"timeout": PATIENCE} | options)
            size = response.headers.get("Content-Length")
            return progress.wrap_file(response, None if size is None else int(size), description="downloading")

        urllib.request.urlopen = urlopen
        try:
            yield
        finally:
            urllib.request.urlopen = kept


def _unpack(address: str, folder: Path, inside: str) -> None:
    """Unpack an archive, which holds a folder `inside` (by default the only one), as `folder`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    packed = download_url(address, str(folder.parent))
    place = Path(f"{packed}.unpacked")
    extract_zip(packed, str(place))
    (place / inside if inside else next(path for path in place.iterdir() if path.is_dir())).rename(folder)
