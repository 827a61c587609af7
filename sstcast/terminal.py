"""Whether progress is shown."""

from rich.console import Console


def hides_progress(console: Console) -> bool:
    """Return whether bars are left out: without a terminal, and in a notebook, which would store every frame."""
    return not console.is_terminal or console.is_jupyter
