"""Downloads raw files that are missing, with PyG's own classes or from the addresses that a declaration names."""

import tempfile
from pathlib import Path

from torch_geometric.data import download_url, extract_zip

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats import pyg
from sstcast.errors import SSTCastError, in_short


def download(dataset: Dataset, root: Path) -> None:
    """Download the missing raw files below `root`, after printing their size and licence.

    Raises SSTCastError if a file cannot be had.
    """
    missing = dataset.missing(root)
    folder = root / dataset.folder
    wanted = {dataset.files[str(path.relative_to(folder))] for path in missing}
    if not missing or "" in wanted:
        return
    print(f"{dataset.name}: downloading to {folder}: {dataset.size}; licence: {dataset.licence}", flush=True)
    try:
        for address in sorted(wanted):
            if address.startswith("PyG's "):
                pyg.download(dataset, root)
            elif Path(address).suffix == ".zip":
                _unpack(address, folder, str(dataset.options.get("archive", "")))
            else:
                for path in (path for path in missing if dataset.files[str(path.relative_to(folder))] == address):
                    download_url(address, str(path.parent), filename=path.name)
    except SSTCastError:
        raise
    except Exception as error:  # networks and servers fail in many ways
        raise SSTCastError(f"{dataset.name}: download from {address} failed: {in_short(error)}") from error
    if left := dataset.missing(root):
        raise SSTCastError(f"{dataset.name}: {left[0]} was not in the download; get it by hand from {address}")


def _unpack(address: str, folder: Path, inside: str) -> None:
    """Unpack an archive, which holds a folder `inside` (by default the only one), as `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        extract_zip(download_url(address, scratch), f"{scratch}/all")
        found = Path(scratch, "all", inside)
        folders = [path for path in found.iterdir() if path.is_dir()]
        if not inside and len(folders) == 1:
            (found,) = folders
        for path in sorted(found.iterdir()):
            if not (folder / path.name).exists():
                path.rename(folder / path.name)
