"""The code of the pages."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    """Return the Python code of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
