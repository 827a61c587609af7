"""Downloads raw files that are missing, with PyG's own classes or from the addresses that a declaration names."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from torch_geometric.data import download_url, extract_zip

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats import pyg
from sstcast.errors import SSTCastError, in_short


def download(dataset: Dataset, root: Path) -> None:
    """Download the missing raw files below `root`, after printing their size and licence.

    Raises SSTCastError if a file cannot be had.
    """
    folder = root / dataset.folder
    missing = {path: dataset.files[str(path.relative_to(folder))] for path in dataset.missing(root)}
    if not missing or "" in missing.values():
        return
    origins = ", ".join(sorted(set(missing.values())))
    print(f"{dataset.name}: downloading to {folder}: {dataset.size}; licence: {dataset.licence}", flush=True)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as scratch:  # what is interrupted leaves nothing
        try:
            below = {path.relative_to(root): address for path, address in missing.items()}
            _get(dataset, Path(scratch), below)
        except Exception as error:  # networks and servers fail in many ways
            reason = f"download from {origins} failed: {in_short(error)}"
            raise SSTCastError(f"{dataset.name}: {reason}") from error
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


def _unpack(address: str, folder: Path, inside: str) -> None:
    """Unpack an archive, which holds a folder `inside` (by default the only one), as `folder`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    packed = download_url(address, str(folder.parent))
    place = Path(f"{packed}.unpacked")
    extract_zip(packed, str(place))
    (place / inside if inside else next(path for path in place.iterdir() if path.is_dir())).rename(folder)
