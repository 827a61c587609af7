"""Reads YAML files of plain values and validates them with Pydantic models. One line describes the first error.

Plain values are text, numbers, dates, lists, and mappings with unique text keys.
"""

import copy
import datetime as dt
import difflib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sstcast.errors import SSTCastError, check_no_pipe, in_short, reading, shorten
from sstcast.storage.artefacts import check_intact, write_json
from sstcast.storage.paths import expand_user

Model = TypeVar("Model", bound=BaseModel)

FIRST_YEAR, LAST_YEAR = 1678, 2261  # the range of times in nanoseconds
LARGEST_SEED = 2**63 - 1  # the limit of PyTorch's generators
MOST_SEEDS = 10_000
_REMEDY = "name a YAML file"
UNWRITTEN: dict[str, Any] = {"unwritten": True}  # marks a key
INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
YAML_TAGS = ("null", "bool", "int", "float", "str", "timestamp", "seq", "map")
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
PLAIN = (None, *(f"tag:yaml.org,2002:{kind}" for kind in YAML_TAGS))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file of `key: value` lines. Raises SSTCastError, naming the file and the line, if it is invalid."""
    try:
        check_no_pipe(path)
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or not UTF-8
        raise SSTCastError(f"{path}: cannot read it ({in_short(error)}); {_REMEDY}") from None
    raw = parse_yaml(text, str(path))
    if not isinstance(raw, dict):
        raise SSTCastError(f"{path}: expected 'key: value' lines; {_REMEDY}")
    return raw


def read_config(path: Path, *, own_options: bool = False) -> dict[str, Any]:
    """Read a YAML file of sections. If it names a `base` file, merge it into that file.

    A base file cannot have a base. With `own_options`, another `model.name` than the base's begins with the
    defaults of that model, not with the options of the base's.
    """
    raw = read_yaml(path)
    if (base := raw.pop("base", None)) is None:
        return raw
    if not isinstance(base, str):
        raise SSTCastError(f"{path}: base: give the path of a YAML file, relative to this one")
    try:
        base_sections = read_yaml(path.parent / expand_user(base))
    except SSTCastError as error:
        raise SSTCastError(f"{path}: base: {error}") from None
    return merge(raw, base_sections, own_options=own_options)


def merge(raw: dict[str, Any], base: dict[str, Any], *, own_options: bool = False) -> dict[str, Any]:
    """Return the sections of `base` with the keys of `raw`, as `read_config` merges them."""
    merged = base | raw
    for section, keys in base.items():
        own_keys = merged[section]
        if not (isinstance(keys, dict) and isinstance(own_keys, dict)):
            continue
        is_other_model = section == "model" and own_keys.get("name", keys.get("name")) != keys.get("name")
        if not (own_options and is_other_model):
            merged[section] = keys | own_keys
    return merged


def apply_overrides(raw: dict[str, Any], overrides: list[str] | None) -> None:
    """Apply `key.sub=value` overrides to the nested `raw`. Raises SSTCastError for any other form."""
    earlier: list[str] = []
    for override in overrides or []:
        key, equals, value = override.partition("=")
        if not equals or not all(key.split(".")):
            raise SSTCastError(f"--set {override}: write --set key=value, for instance --set training.epochs=3")
        if replaced := [other for other in earlier if other.startswith(f"{key}.")]:
            raise SSTCastError(
                f"--set {override}: would drop --set {replaced[0]}; give it before, or leave one out"
            )
        earlier.append(override)
        _assign(raw, key.split("."), parse_yaml(value, f"--set {override}"), override)


def save_config(config: BaseModel, path: Path, without: set[str] | None = None) -> None:
    """Write a configuration with all defaults but those of `unwritten` keys, except the sections `without`."""
    content = written(config, without)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML of plain values. Raises SSTCastError, naming `where`, if `text` is anything else."""
    try:
        return copy.deepcopy(_load(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        detail = location + " ".join(str(error.problem or error.context).split())
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # PyYAML raises these for a value that its tag does not fit, and for a date such as 2001-02-30
        detail = in_short(error)
    raise SSTCastError(f"{where}: not valid YAML ({shorten(detail)})")


@lru_cache(maxsize=64)  # a command reads the same configuration many times
def _load(text: str) -> Any:
    return _Loader(text).get_single_data()


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    """Build a number, unless it is one that people write for another: YAML reads 010 as 8, and 12:30 as 750."""
    text = str(node.value)
    is_plain = INTEGER.fullmatch(text) if node.tag == NUMBERS[0] else {"_", ":"}.isdisjoint(text)
    if not is_plain:
        problem = f"{shorten(text, 40)} is no plain number: write only its digits, or put it in quotes"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    value: float = yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
    return value


class _Loader(yaml.SafeLoader):
    yaml_constructors: ClassVar = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in PLAIN}
    yaml_constructors |= dict.fromkeys(NUMBERS, _number)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping. Keys must be text and unique."""
        keys = set()
        for key, _ in node.value:
            problem = ""
            if key.tag != "tag:yaml.org,2002:str" and key.tag != "tag:yaml.org,2002:merge":
                problem = f"the key {shorten(str(key.value), 40)} is not text: put it in quotes"
            elif key.value in keys:
                problem = f"the key {shorten(key.value, 40)!r} appears twice: delete one"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep)


def _assign(raw: Any, keys: list[str], value: Any, override: str) -> None:
    for key in keys[:-1]:
        raw = raw.setdefault(key, {})
        if not isinstance(raw, dict):
            raise SSTCastError(f"--set {override}: {key} is a value without keys; override {key} itself")
    raw[keys[-1]] = value


class Strict(BaseModel):
    """A frozen model that rejects unknown keys and infinite or NaN numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def unwritten(default: Any = None) -> Any:
    """Declare a key that stays out of config.yaml while it has its default. Recipes contain it."""
    return Field(default=default, json_schema_extra=UNWRITTEN)


def written(config: BaseModel, without: set[str] | None = None) -> dict[str, Any]:
    """Return what config.yaml and checkpoints hold of a configuration, except the sections `without`."""
    content = config.model_dump(mode="json", exclude=without)
    _drop_unwritten(config, content)
    return content


def _drop_unwritten(value: Any, content: dict[str, Any]) -> None:
    """Delete the `unwritten` keys that have their defaults from the `content` of a dump of `value`."""
    for name, field in type(value).model_fields.items() if isinstance(value, BaseModel) else ():
        if field.json_schema_extra == UNWRITTEN and getattr(value, name) == field.default:
            content.pop(name, None)
    for name, part in dict(value).items():
        if name in content and isinstance(part, (BaseModel, dict)):
            _drop_unwritten(part, content[name])


class JsonRecord(Strict):
    """Facts that a run saves as JSON for later comparison. Keys of later versions are ignored."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def load(cls, path: Path, remedy: str) -> Self:
        """Read a record. Raises SSTCastError with the remedy if it is damaged or has changed."""
        with reading(path, remedy):
            record = cls.model_validate_json(path.read_bytes(), strict=True)
        check_intact(path, remedy)
        return record

    def save(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))


def validate(model: type[Model], raw: Any, where: str) -> Model:
    """Build `model` from plain data. Raises SSTCastError, naming `where`, for the first error."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise SSTCastError(f"{where}: {_first_error(error, model, raw)}") from None


def suggest(name: str, candidates: Any) -> str:
    """Return ` (did you mean 'x'?)` with the known name closest to `name`, or "" if none is close."""
    names = {str(candidate).lower(): str(candidate) for candidate in candidates}
    matches = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f" (did you mean {names[matches[0]]!r}?)" if matches else ""


def parse_seeds(text: str) -> list[int]:
    """Parse seeds from `0..4` (both inclusive), `7` or `0,2,5`. Raises SSTCastError for any other form."""
    first, dots, last = text.partition("..")
    try:
        numbers = range(int(first), int(last) + 1) if dots else [int(seed) for seed in text.split(",")]
    except ValueError:
        numbers = []
    seeds = list(numbers[: MOST_SEEDS + 1])  # a range may be too long for `len`
    if not 0 < len(set(seeds)) == len(seeds) <= MOST_SEEDS or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise SSTCastError(f"--seeds {text}: write 0..4, 7 or 0,2,5, at most {MOST_SEEDS:,} seeds")
    return seeds


def _first_error(error: ValidationError, model: type[BaseModel], raw: Any) -> str:
    first = error.errors(include_url=False)[0]
    path = _path_in(raw, first["loc"])
    key = ".".join(map(str, path))
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key{suggest(str(path[-1]), _keys(model) - {path[-1]})}"
    message = first["msg"].removeprefix("Value error, ").replace("Field required", "is missing")
    if "or instance of" in message:
        message = "give a mapping of keys"
    if first["type"] == "string_pattern_mismatch":
        message = "begin with a letter or digit, and use only letters, digits and . _ -"
    return f"{key}: {message}" if key else message


def _path_in(raw: Any, loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the keys that lead to an error, without the names that Pydantic adds for union members."""
    path = []
    for key in loc:
        if isinstance(raw, dict) and (key in raw or key == loc[-1]):
            raw = raw.get(key)
        elif isinstance(raw, (list, tuple)) and isinstance(key, int):
            raw = raw[key] if key < len(raw) else None
        else:
            continue
        path.append(key)
    return tuple(path)


def _keys(model: type[BaseModel]) -> set[str]:
    """Return the keys of a model and its nested models."""
    schema = model.model_json_schema()
    return {
        key
        for definition in (schema, *schema.get("$defs", {}).values())
        for key in definition.get("properties", {})
    }


def span(value: Any) -> Any:
    """Convert `[first, last]`, inclusive years or ISO dates, to two dates. Raises ValueError for other values."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError("give [first, last], years or ISO dates")

    def day(item: Any, month_day: str) -> Any:
        if isinstance(item, bool) or not isinstance(item, (int, str, dt.date)):
            raise ValueError(f"{item}: give a year or an ISO date")
        year = item if isinstance(item, int) else getattr(item, "year", FIRST_YEAR)
        if not FIRST_YEAR <= year <= LAST_YEAR:
            raise ValueError(f"{str(year)[:20]}: give years from {FIRST_YEAR} to {LAST_YEAR}")
        return f"{item:04d}-{month_day}" if isinstance(item, int) else item

    return day(value[0], "01-01"), day(value[1], "12-31")
