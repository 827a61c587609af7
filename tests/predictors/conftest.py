"""Pages without plots: these tests read their words."""

import pytest
from quick_drawing import draw_no_plots


@pytest.fixture(autouse=True)
def quick_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_plots(monkeypatch)
