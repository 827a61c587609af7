"""The arguments of a class as options to check, so that the class is the one place where they are written down."""

from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any

from pydantic import ConfigDict, create_model

from sstcast.config import validate


def check_options(parameters: Iterable[Parameter], options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a value for each parameter, its default unless `options` has one.

    Raises SSTCastError, naming `where` and the option, if there is no such parameter, or its value is missing or
    of the wrong type.
    """
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default) for p in parameters
    }
    schema = create_model("Options", __config__=ConfigDict(extra="forbid"), **fields)
    return validate(schema, dict(options), where).model_dump()
