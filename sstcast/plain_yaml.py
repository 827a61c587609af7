"""Reads YAML of plain values: text, numbers, dates, lists, and mappings with unique text keys."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from sstcast.errors import SSTCastError, in_short, shorten
from sstcast.validation import usable_path

_REMEDY = "name a YAML file such as configs/demo.yaml"


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file of `key: value` lines; raise SSTCastError, naming the file and the line, if it is not valid."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise SSTCastError(f"{path}: cannot read it (not a text file); {_REMEDY}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SSTCastError(f"{path}: cannot read it ({in_short(error)}); {_REMEDY}") from None
    raw = parse_yaml(text, str(path))
    if not isinstance(raw, dict):
        raise SSTCastError(f"{path}: expected 'key: value' lines; {_REMEDY}")
    return raw


def read_config(path: Path) -> dict[str, Any]:
    """Read a YAML file of sections and merge it into the file that it names as its `base`."""
    raw = read_yaml(path)
    if (base := raw.pop("base", None)) is None:
        return raw
    if not isinstance(base, str):
        raise SSTCastError(f"{path}: base: give the path of a YAML file, relative to this one")
    try:
        below = read_yaml(path.parent / usable_path(Path(base)))
    except (SSTCastError, ValueError) as error:
        raise SSTCastError(f"{path}: base: {error}") from None
    for section, keys in below.items():
        both = isinstance(keys, dict) and isinstance(raw.get(section), dict)
        raw[section] = keys | raw[section] if both else raw.get(section, keys)
    return raw


def apply_overrides(raw: dict[str, Any], overrides: list[str] | None) -> None:
    """Set each `key.sub=value` in the nested `raw`; raise SSTCastError for an override not of this form."""
    for override in overrides or []:
        key, equals, value = override.partition("=")
        if not equals or not all(key.split(".")):
            raise SSTCastError(f"--set {override}: write --set key=value, for instance --set training.epochs=3")
        _assign(raw, key.split("."), parse_yaml(value, f"--set {override}"), override)


def save_config(config: BaseModel, path: Path, without: set[str] | None = None) -> None:
    """Write the resolved configuration with every default spelled out, except the sections `without`.

    The file begins and ends with YAML's own marks of a document, so that `check_whole` can tell half of it.
    """
    plain = config.model_dump(mode="json", exclude=without)
    text = yaml.safe_dump(plain, sort_keys=False, explicit_start=True, explicit_end=True)
    path.write_text(text, encoding="utf-8")


def check_whole(path: Path) -> None:
    """Raise SSTCastError if a file that `save_config` wrote lacks its end; other defaults would take its place."""
    content = path.read_bytes()
    if content.startswith(b"---\n") and not content.endswith(b"...\n"):
        raise SSTCastError(f"{path}: its end is missing; restore it, or train again under another name")


def parse_yaml(text: str, where: str) -> Any:
    """Return the values in `text`; raise SSTCastError, naming `where`, if it is not YAML of plain values."""
    try:
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        detail = at + " ".join(str(error.problem or error.context).split())
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2001-02-30
        detail = in_short(error)
    raise SSTCastError(f"{where}: not valid YAML ({shorten(detail)})")


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping; each key must be text and occur once."""
        seen = set()
        for key, _ in node.value:
            problem = ""
            if key.tag != "tag:yaml.org,2002:str" and key.tag != "tag:yaml.org,2002:merge":
                problem = f"the key {shorten(str(key.value), 40)} is not text: write it in quotes"
            elif key.value in seen:
                problem = f"the key {shorten(key.value, 40)!r} is there twice: keep one of them"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _assign(raw: Any, keys: list[str], value: Any, override: str) -> None:
    keys = list(keys)
    if isinstance(several := raw.get(keys[0]), list):
        if len(keys) < 3 or keys[1] not in map(str, range(len(several))):
            first, last = f"{keys[0]}.0...", f"{keys[0]}.{len(several) - 1}..."
            raise SSTCastError(f"--set {override}: {keys[0]} is a list; write {first} to {last}")
        raw, keys = several[int(keys[1])], keys[2:]
        if not isinstance(raw, dict):
            raise SSTCastError(f"--set {override}: that item of the list holds a value, not further keys")
    for key in keys[:-1]:
        raw = raw.setdefault(key, {})
        if not isinstance(raw, dict):
            raise SSTCastError(f"--set {override}: {key} holds a value, not further keys; override {key} itself")
    raw[keys[-1]] = value
