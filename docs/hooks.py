"""Pages of the site that are made from other files: the README, the notebooks, and the reference.

Links from `docs/` to files elsewhere in the repository lead to copies of these files inside the site.
"""

import base64
import html
import inspect
import json
import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from typer.cli import get_docs_for_click
from typer.main import get_command

import sstcast
from sstcast import api
from sstcast.cli import app
from sstcast.config import DataConfig, PredictorConfig, Region, RunConfig, Splits, TrainingConfig
from sstcast.models import LINEAR, MODELS, default_options

ROOT = Path(__file__).parents[1]
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "perf/log.md": "log.md",
    "studies/README.md": "studies.md",
}
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")
CONFIGURATION = (RunConfig, DataConfig, Splits, Region, PredictorConfig, TrainingConfig)
INTERFACES = (
    "sstcast.graphs.graph.Graph",
    "sstcast.models.base.ForecastModel",
    "sstcast.models.convs.Conv",
    "sstcast.models.attention.Attention",
    "sstcast.training.task.Task",
    "sstcast.forecasting.system.ForecastSystem",
    "sstcast.forecasting.loaded_run.LoadedRun",
    "sstcast.sources.source.Source",
    "sstcast.scores.metrics.Metric",
    "sstcast.scores.metrics.Statistic",
    "sstcast.scores.indices.box_mean",
    "sstcast.figures.results.Results",
    "sstcast.figures.maps.draw_forecast",
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that the navigation does not name yet at the end of the how-to guides."""
    (guides,) = (section["How-to guides"] for section in config.nav if "How-to guides" in section)
    named = json.dumps(config.nav)
    guides += [page.name for page in sorted((ROOT / "docs").glob("*.md")) if f'"{page.name}"' not in named]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and copies of the files that pages link to."""
    pages = {TOP[name]: _in_docs(name) for name in TOP}
    pages |= {
        "reference/functions.md": functions(),
        "reference/commands.md": commands(),
        "reference/configuration.md": configuration(),
        "reference/models.md": models(),
        "reference/interfaces.md": "# Interfaces\n\nWhat your own parts derive from, or use.\n\n"
        + "\n\n".join(f"::: {name}" for name in INTERFACES),
    }
    content: dict[str, str | bytes] = dict(pages)
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        content |= tutorial(notebook)
    texts = [text for text in content.values() if isinstance(text, str)]
    texts += [file.content_string for file in files.documentation_pages()]
    linked = {path for text in texts for _, path, _ in LINK.findall(_inside(text)) if path.startswith("files/")}
    for path in linked:
        if (ROOT / path.removeprefix("files/")).is_file():
            content[path] = (ROOT / path.removeprefix("files/")).read_bytes()
    for path, value in content.items():
        files.append(File.generated(config, path, content=value))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make links to files outside `docs/` lead to their copies."""
    return _inside(markdown, "../" * page.file.src_uri.count("/"))


def _inside(markdown: str, up: str = "") -> str:
    def moved(link: re.Match[str]) -> str:
        target = link[2]
        if not target.startswith("../"):
            return link[0]
        path = target.removeprefix("../")
        if path in TOP:
            path = TOP[path]
        elif path.startswith("notebooks"):
            path = path.replace(".ipynb", ".md") if path.endswith(".ipynb") else "notebooks/01_data_and_tiles.md"
        else:
            path = f"files/{path}"
        return f"{link[1]}{up}{path}{link[3]}"

    return LINK.sub(moved, markdown)


def _in_docs(name: str) -> str:
    """Return the text of a page outside `docs/`, with its links written as those of a page inside."""

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link[2]))
        path = target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"
        return f"{link[1]}{path}{link[3]}"

    return LINK.sub(moved, (ROOT / name).read_text())


def tutorial(notebook: Path) -> dict[str, str | bytes]:
    """Return a stored notebook as a page, and its pictures, by their paths."""
    name, parts = notebook.stem, []
    files: dict[str, str | bytes] = {}
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for place, output in enumerate(cell["outputs"]):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"notebooks/{name}-{number}-{place}.png"
                files[picture] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![The figure that the code above draws]({Path(picture).name})")
            elif "text/html" in data:
                page = re.sub(r"\n\s*\n+", "\n", "".join(data["text/html"]))
                parts.append(f'<div class="output">\n{page}\n</div>')
            else:
                text = "".join(output.get("text") or data.get("text/plain", ""))
                parts.append(f'<pre class="output">{html.escape(text)}</pre>')
    where = f"This page is `notebooks/{notebook.name}`, with the outputs stored there."
    return files | {f"notebooks/{name}.md": "\n\n".join([*parts, "---", where])}


def functions() -> str:
    """Return the page of the public functions; raise PluginError if one is not documented."""
    shared = (inspect.getdoc(api) or "").partition("Args:\n")[2]
    parts = [
        "# Functions",
        "What `import sstcast` offers, with the same names and defaults as the commands. A test runs the examples "
        "as one session. Arguments of these names mean the same everywhere, unless a function describes its own:",
        re.sub(r"^    (\w+): ", r"- `\1`: ", shared, flags=re.MULTILINE),
    ]
    public = {name: getattr(sstcast, name) for name in sstcast.__all__}
    for name, found in sorted(public.items(), key=lambda each: (each[1].__module__, _line(each[1]))):
        undocumented(name, found)
        parts.append(f"::: {found.__module__}.{found.__qualname__}")
    return "\n\n".join(parts)


def _line(found: Any) -> int:
    return inspect.getsourcelines(found)[1]


def undocumented(name: str, found: Any) -> None:
    """Raise PluginError if a public object, or an argument of a public function, is not documented."""
    text = inspect.getdoc(found) or ""
    if not text:
        raise PluginError(f"sstcast.{name}: has no docstring")
    listed = re.findall(r"^    (\w+): ", text.partition("Args:")[2], re.MULTILINE)
    shared = re.findall(r"^    (\w+): ", inspect.getdoc(api) or "", re.MULTILINE)
    arguments = list(inspect.signature(found).parameters) if inspect.isfunction(found) else []
    if missing := [each for each in arguments if listed and each not in (*listed, *shared)]:
        raise PluginError(f"sstcast.{name}: its docstring says nothing of {', '.join(missing)}")


def commands() -> str:
    """Return the page of the commands, from Typer's own description of them."""
    import click

    text = get_docs_for_click(obj=get_command(app), ctx=click.Context(get_command(app)), name="sstcast")
    return re.sub(r"^# `sstcast`$", "# Commands", text, flags=re.MULTILINE)


def configuration() -> str:
    """Return the page of all keys of a configuration, from the models that validate it."""
    parts = ["# Configuration", "The keys of a run's YAML; `--set section.key=value` overrides any of them."]
    titles = {
        RunConfig: "The file",
        DataConfig: "data",
        Splits: "data.splits",
        Region: "data.region",
        PredictorConfig: "data.predictors.NAME",
        TrainingConfig: "training",
    }
    for model in CONFIGURATION:
        parts += [f"## {titles[model]}", inspect.cleandoc(model.__doc__ or ""), "\n".join(_keys(model))]
    return "\n\n".join(parts)


def _keys(model: type[BaseModel]) -> Iterator[str]:
    yield from ("| key | values | default |", "|---|---|---|")
    schema = model.model_json_schema()
    for name, key in schema["properties"].items():
        default = "required" if name in schema.get("required", []) else _default(key.get("default"))
        yield f"| `{name}` | {_values(key)} | {default} |"


def _default(value: Any) -> str:
    return "that of each key" if isinstance(value, dict) else f"`{json.dumps(value)}`"


def _values(key: dict[str, Any]) -> str:
    """Return in words which values a key may have."""
    if "enum" in key or "const" in key:
        return ", ".join(f"`{value}`" for value in key.get("enum", [key.get("const")]))
    branches = key.get("anyOf") or key.get("oneOf")
    if branches:
        return " or ".join(dict.fromkeys(map(_values, branches)))
    if "prefixItems" in key:
        return f"[{', '.join(map(_values, key['prefixItems']))}]"
    if "$ref" in key:
        return {"Region": "a box, see data.region"}.get(key["$ref"].split("/")[-1], "a section")
    words = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
    limits = [f"{sign} {key[word]:g}" for word, sign in words.items() if word in key]
    kind = {"null": "none", "array": "a list", "object": "a mapping", "boolean": "true or false"}
    return " ".join([kind.get(key.get("type", "any"), key.get("format") or key.get("type", "any")), *limits])


def models() -> str:
    """Return the page of the models, with their options from the signatures and docstrings of their classes."""
    parts = ["# Models and their options", "The values of `model.name`, and the other keys of `model:` for each."]
    for name, entry in (MODELS | LINEAR).items():
        module, kind = entry.path.split(".")
        about = inspect.cleandoc(getattr(import_module(f"sstcast.models.{module}"), kind).__doc__ or "")
        arguments = f"{inspect.getdoc(sstcast.models)}\n{about}"  # the class comes last, so its meanings win
        meanings = dict(re.findall(r"^    (\w+): (.*(?:\n        .*)*)", arguments, re.MULTILINE))
        about = about.partition("\n\nArgs:\n")[0]
        options = [
            f"| `{key}` | `{json.dumps(value)}` | {' '.join(meanings.get(key, '').split())} |"
            for key, value in default_options(name).items()
        ]
        table = ["| option | default | |", "|---|---|---|", *options] if options else ["It has no options."]
        parts += [f"## {name}", f"{entry.about[0].upper()}{entry.about[1:]}.", about, "\n".join(table)]
    return "\n\n".join(parts)
