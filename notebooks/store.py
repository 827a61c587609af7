"""Execute the notebooks as their `.py` files say, and store them with their outputs: `make notebooks`.

The stored notebook records a digest of the code that made its outputs, so that a test finds outputs that are stale.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).parent


def digest(notebook: Any) -> str:
    """Return a digest of a notebook's code cells."""
    code = "\0".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    return hashlib.sha256(code.encode()).hexdigest()


def joined(outputs: list[Any]) -> list[Any]:
    """Join the parts of a printed text, which arrive one by one."""
    whole: list[Any] = []
    for output in outputs:
        before = whole[-1] if whole else {}
        if output["output_type"] == "stream" and output["name"] == before.get("name"):
            before["text"] += output["text"]
        else:
            whole.append(output)
    return whole


def store(script: Path) -> None:
    """Execute a notebook in this folder, and write it beside its script."""
    notebook = jupytext.read(script)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # the same whenever it is stored
    NotebookClient(notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": HERE}}).execute()
    for cell in notebook.cells:
        cell["metadata"].pop("execution", None)  # times
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    notebook.metadata["sstcast"] = {"code": digest(notebook)}
    jupytext.write(notebook, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or sorted(HERE.glob("[0-9]*.py"))):
        print(path, flush=True)
        store(path)
