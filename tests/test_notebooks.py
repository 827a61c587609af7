"""The stored notebooks: their outputs are those of their code, and hold no progress frames."""

import ast
import json
import re
import sys
from pathlib import Path

import jupytext
import pytest

import sstcast

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
from store import digest  # noqa: E402

REMEDY = "run `make notebooks`"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_outputs_are_those_of_the_code_and_few(path: Path) -> None:
    notebook, script = json.loads(path.read_text()), jupytext.read(path.with_suffix(".py"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    assert [cell["source"] for cell in notebook["cells"]] == [cell["source"] for cell in script["cells"]], REMEDY
    assert notebook["metadata"]["sstcast"]["code"] == digest(script), REMEDY
    for cell in notebook["cells"]:
        outputs = cell.get("outputs", [])
        assert len(outputs) <= 12, f"{len(outputs)} outputs of one cell: progress frames?"
        for output in outputs:
            text = "".join(output.get("text", "")) + "".join(output.get("data", {}).get("text/plain", ""))
            assert output["output_type"] != "error"
            assert not {"\r", "━"} & set(text), "a progress bar was stored"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_what_a_notebook_imports_is_public_or_explained_in_the_docs(path: Path) -> None:
    root = NOTEBOOKS.parent
    explained = "".join(
        page.read_text() for page in [*root.glob("docs/*.md"), root / "docs/hooks.py", root / "README.md"]
    )
    code = path.read_text()
    assert set(re.findall(r"\bsstcast\.(\w+)\(", code)) <= set(sstcast.__all__)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sstcast."):
            assert str(node.module) in explained, node.module
