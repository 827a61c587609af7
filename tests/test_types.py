"""The package, the studies and the classes of the pages have strict types, in one run of mypy."""

from pathlib import Path

import pytest
from documentation import ROOT, blocks
from mypy import api


def test_types_are_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in ("own-metric", "own-model", "own-source", "own-task"):
        code = "\n".join(block for block in blocks(f"docs/{page}.md") if not block.startswith("    "))
        (tmp_path / f"{page.replace('-', '_')}.py").write_text(code)
    for number, code in enumerate(blocks("docs/own-score.md")[:2]):
        (tmp_path / f"own_score_{number}.py").write_text(code)
    monkeypatch.setenv("MYPYPATH", f"{ROOT}:{tmp_path}")
    options = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
    checked = [ROOT / "sstcast", ROOT / "studies", tmp_path]
    found = api.run([*map(str, options), "--explicit-package-bases", *map(str, checked)])
    assert found[2] == 0, found[0]
