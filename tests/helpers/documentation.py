"""The code of the pages."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTENDING = "docs/extending.md"


def blocks(page: str, heading: str = "") -> list[str]:
    """Return the Python code of a page, or of one of its sections with the sections below it."""
    text = (ROOT / page).read_text()
    if heading:
        marks = re.findall(rf"^(#+) {re.escape(heading)}$", text, re.M)
        assert len(marks) == 1, f"{page}: {len(marks)} sections {heading}"
        section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#{{1,{len(marks[0])}}} |\Z)", text, re.M | re.S)
        assert section
        text = section[1]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def sections(page: str) -> list[str]:
    """Return the headings of the sections of a page."""
    return re.findall(r"^## (.*)$", (ROOT / page).read_text(), re.MULTILINE)
