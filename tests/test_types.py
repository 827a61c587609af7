"""The package, the studies and the classes of the pages have strict types, in one run of mypy."""

from pathlib import Path

import pytest
from documentation import EXTENDING, ROOT, blocks, sections
from mypy import api


def test_types_are_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [heading for heading in sections(EXTENDING) if heading != "A kind of score"]
    for number, heading in enumerate([*parts, "The class", "The table"]):
        code = "\n".join(block for block in blocks(EXTENDING, heading) if not block.startswith("    "))
        (tmp_path / f"extending_{number}.py").write_text(code)
    monkeypatch.setenv("MYPYPATH", f"{ROOT}:{tmp_path}")
    options = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
    checked = [ROOT / "sstcast", ROOT / "studies", tmp_path]
    found = api.run([*map(str, options), "--explicit-package-bases", *map(str, checked)])
    assert found[2] == 0, found[0]
