"""Reads YAML of plain values: text, numbers, dates, lists, and mappings with unique text keys."""

import math
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from sstcast.errors import SSTCastError, in_short, shorten
from sstcast.validation import usable_path

LARGEST_FILE = 2**20  # bytes
LARGEST = 100_000  # nodes with aliases expanded, plus one per ten characters
DEEPEST = 20
PLAIN = ("null", "bool", "int", "float", "timestamp", "str", "seq", "map")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file of `key: value` lines; raise SSTCastError, naming the file and the line, if it is not valid."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SSTCastError(f"{path}: cannot read it (not a text file); {_REMEDY}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SSTCastError(f"{path}: cannot read it ({in_short(error)}); {_REMEDY}") from None
    if len(content) > LARGEST_FILE:
        raise SSTCastError(f"{path}: is larger than {LARGEST_FILE:,} bytes; {_REMEDY}")
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
    """Write the resolved configuration with every default spelled out, except the sections `without`."""
    plain = config.model_dump(mode="json", exclude=without)
    path.write_text(yaml.safe_dump(plain, sort_keys=False), encoding="utf-8")


def parse_yaml(text: str, where: str) -> Any:
    """Return the values in `text`; raise SSTCastError, naming `where`, if it is not plain YAML."""
    try:
        return deepcopy(_parse(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        detail = at + " ".join(str(error.problem or error.context).split())
    except yaml.YAMLError as error:
        detail = in_short(error)
    except RecursionError:
        detail = "nested too deeply"
    raise SSTCastError(f"{where}: not valid YAML ({shorten(detail)})")


@lru_cache(maxsize=16)  # a command reads its run's configuration many times
def _parse(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _weigh(node, {}, 0)
        return loader.construct_document(node)
    finally:
        loader.dispose()


_REMEDY = "name a YAML file such as configs/demo.yaml"


class _Loader(yaml.SafeLoader):
    yaml_constructors = {  # noqa: RUF012 - as PyYAML has it
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in PLAIN
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Build the value of a node; add the line to Python's message about an invalid date or number."""
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("give a finite number")
            if isinstance(value, str):
                value.encode()  # half of a surrogate pair could not be written again
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise _wrong(node, f"{shorten(str(node.value), 40)}: {in_short(error)}") from None
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping; each key must be text and occur once."""
        seen = set()
        for key, _ in node.value:
            tag = key.tag.rpartition(":")[2]
            if tag == "merge":
                continue
            if tag != "str":
                raise _wrong(key, f"the key {shorten(str(key.value), 40)} is not text: write it in quotes")
            if key.value in seen:
                raise _wrong(key, f"the key {shorten(key.value, 40)!r} is there twice: keep one of them")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _wrong(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _weigh(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """Return the size of a node with all aliases expanded; raise an error if it is too large."""
    if depth > DEEPEST:
        raise _wrong(node, f"nested more than {DEEPEST} levels deep")
    if id(node) in known:
        if not known[id(node)]:
            raise _wrong(node, "an alias inside the value that it stands for")
        return known[id(node)]
    known[id(node)] = 0
    if isinstance(node, yaml.ScalarNode):
        size = 1 + len(node.value) // 10
    elif isinstance(node, yaml.MappingNode):
        size = 1 + sum(_weigh(part, known, depth + 1) for pair in node.value for part in pair)
    else:
        size = 1 + sum(_weigh(part, known, depth + 1) for part in node.value)
    if size > LARGEST:
        raise _wrong(node, f"more than {LARGEST:,} values with aliases expanded")
    known[id(node)] = size
    return size


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
