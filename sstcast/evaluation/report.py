"""The verb `report`: a run on one self-contained page."""

import base64
from html import escape
from pathlib import Path

import yaml

from sstcast.errors import SSTCastError
from sstcast.evaluation.evaluate import evaluate
from sstcast.evaluation.table import Sheet, by_lead, overall
from sstcast.files import atomic
from sstcast.runs import Run

CAPTIONS = {
    "rmse": "Root mean squared error by lead week.",
    "bias": "Mean of forecast minus observation by lead week.",
    "skill": "Mean-squared-error skill over persistence by lead week; above 0 the model is better.",
    "forecast": "The forecast of median error, what came true, and the difference.",
}

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: bold; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #ccc; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tbody tr:first-child { font-weight: bold; }
figure { margin: 2rem 0; }
img { max-width: 100%; height: auto; }
pre { background: #f4f4f4; padding: 1rem; overflow-x: auto; }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} - sstcast report</title>
<style>{style}</style>
</head>
<body>
<h1>{name}</h1>
<p>{summary}</p>
<h2>Scores</h2>
{tables}
<h2>Maps</h2>
{figures}
<h2>Configuration</h2>
<pre tabindex="0">{config}</pre>
<p>Data: {source}. Land: Natural Earth.</p>
</body>
</html>
"""


def write_report(run: Run) -> Path:
    """Write `report.html`: scores, maps and configuration, images included.

    Raises SSTCastError if the maps have not been drawn.
    """
    metrics, _ = evaluate(run)
    first, last = metrics["test"]
    page = PAGE.format(
        name=escape(run.folder.name),
        style=STYLE,
        source=escape(metrics["source"]),
        summary=f"{escape(metrics['model'])}, {metrics['protocol']} protocol: {metrics['forecasts']} forecasts of "
        f"{metrics['ocean_cells']} ocean cells, {first} to {last}.",
        tables="".join(_table(sheet(metrics, run.folder.name)) for sheet in (overall, by_lead)),
        figures="".join(_figure(run, name, caption) for name, caption in CAPTIONS.items()),
        config=escape(yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False)),
    )
    with atomic(run.report) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return run.report


def _table(sheet: Sheet) -> str:
    def row(cells: list[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    head = row(["", *sheet.header], "th")
    body = "".join(row([name, *cells], "td") for name, cells in sheet.rows)
    table = f"<table><caption>{escape(sheet.title)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'


def _figure(run: Run, name: str, caption: str) -> str:
    path = run.maps / f"{name}.png"
    if not path.exists():
        raise SSTCastError(f"{path}: no map yet; run `sstcast map {run.folder}` first")
    image = base64.b64encode(path.read_bytes()).decode()
    caption = escape(caption)
    picture = f'<img alt="{caption}" src="data:image/png;base64,{image}">'
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
