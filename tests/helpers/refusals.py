"""What a mistake must come to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sstcast.errors import SSTCastError


@contextmanager
def refused(*words: object) -> Iterator[None]:
    """Expect an error of one line that holds all `words`."""
    with pytest.raises(SSTCastError) as error:
        yield
    assert "\n" not in str(error.value)
    for word in words:
        assert str(word) in str(error.value)
