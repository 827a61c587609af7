"""Types of the sizes that models take. Their bounds catch a mistyped size, which would fill the memory."""

from typing import Annotated

from pydantic import Field

Size = Annotated[int, Field(ge=0, le=10_000)]  # channels, features, hops and the like
Count = Annotated[int, Field(ge=1, le=10_000)]  # the same where there must be one
Layers = Annotated[int, Field(ge=0, le=1000)]
Share = Annotated[float, Field(ge=0, le=1)]  # of activations set to 0
