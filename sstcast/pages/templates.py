"""HTML pages from the templates beside this file."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sstcast.artefacts import atomic


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write a page to `path` atomically; `values` are text, not markup."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.policies["json.dumps_kwargs"] = {
        "sort_keys": False,
        "allow_nan": False,
    }  # Bokeh's JSON has an order
    page = environment.get_template(template)
    with atomic(path) as temporary:
        temporary.write_text(page.render(values), encoding="utf-8")
