"""Validates plain data with Pydantic models, and describes the first error in one line."""

import datetime as dt
import difflib
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from sstcast.errors import SSTCastError

Model = TypeVar("Model", bound=BaseModel)

FIRST_YEAR, LAST_YEAR = 1678, 2261  # the range of times in nanoseconds
LARGEST_SEED = 2**63 - 1  # the largest that PyTorch's generators accept
MOST_SEEDS = 1000


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def validate(model: type[Model], raw: Any, where: str) -> Model:
    """Build `model` from plain data; raise SSTCastError with one line about the first error."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise SSTCastError(f"{where}: {_first_error(error, model, raw)}") from None


def suggest(name: str, known: Any) -> str:
    """Return `; did you mean 'x'?` with the most similar known name, or an empty string."""
    near = difflib.get_close_matches(name, [str(k) for k in known], n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def parse_seeds(text: str) -> list[int]:
    """Parse seeds from `0..4` (both inclusive), `7` or `0,2,5`; raise SSTCastError for any other form."""
    first, dots, last = text.partition("..")
    try:
        some = range(int(first), int(last) + 1) if dots else [int(seed) for seed in text.split(",")]
    except ValueError:
        some = []
    if some[MOST_SEEDS:]:
        raise SSTCastError(f"--seeds {text}: more than {MOST_SEEDS:,} seeds; write fewer")
    seeds = list(some)
    if not seeds or min(seeds) < 0 or max(seeds) > LARGEST_SEED or len(set(seeds)) < len(seeds):
        raise SSTCastError(f"--seeds {text}: write 0..4, 7 or 0,2,5")
    return seeds


def usable_path(value: Path) -> Path:
    """Return a path with `~` expanded; raise ValueError if it cannot be a path."""
    if "\0" in str(value):
        raise ValueError("contains a NUL character: give a valid path")
    try:
        return value.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{value}: {error}") from None


def _first_error(error: ValidationError, model: type[BaseModel], raw: Any) -> str:
    first = error.errors(include_url=False)[0]
    path = _path_in(raw, first["loc"])
    key = ".".join(map(str, path))
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key{suggest(str(path[-1]), _keys(model, path[:-1]))}"
    message = first["msg"].removeprefix("Value error, ").replace("Field required", "is missing")
    if "or instance of" in message:
        message = "give a mapping of keys"
    return f"{key}: {message}" if key else message


def _path_in(raw: Any, loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the keys that lead to an error, without the names that Pydantic adds for branches of a union."""
    path = []
    for part in loc:
        if isinstance(raw, dict) and (part in raw or part == loc[-1]):
            raw = raw.get(part)
        elif isinstance(raw, (list, tuple)) and isinstance(part, int):
            raw = raw[part] if part < len(raw) else None
        else:
            continue
        path.append(part)
    return tuple(path)


def _keys(model: Any, path: tuple[Any, ...]) -> list[str]:
    for part in path:
        if part not in model.model_fields:
            return []
        annotation = model.model_fields[part].annotation
        branches = [
            annotation,
            *(inner for branch in get_args(annotation) for inner in (branch, *get_args(branch))),
        ]
        model = next((m for m in branches if isinstance(m, type) and issubclass(m, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)


def span(value: Any) -> Any:
    """Convert `[first, last]`, years or ISO dates, both inclusive, to two dates."""
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
