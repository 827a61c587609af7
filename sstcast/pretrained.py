"""The run that ships with sstcast, which `pretrained` names wherever a run's folder is asked for."""

import shutil
from pathlib import Path

from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic, packaged

NAME = "pretrained"
WEIGHTS = "checkpoints/best.pt"


def unpacked(folder: Path) -> Path:
    """Return a run's folder; of the run that ships with sstcast, a copy in `runs/`, where its results go.

    Raises SSTCastError if another run lies there.
    """
    if str(folder) != NAME or folder.exists():
        return folder
    shipped, copy = packaged(f"data/{NAME}"), Path("runs") / NAME
    with alone(copy):
        if not copy.exists():
            with atomic(copy) as temporary:
                shutil.copytree(shipped, temporary)
        elif not (copy / WEIGHTS).exists() or (copy / WEIGHTS).read_bytes() != (shipped / WEIGHTS).read_bytes():
            raise SSTCastError(f"{copy}: is not the run that ships with this sstcast; rename or delete it")
    return copy
