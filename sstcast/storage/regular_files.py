"""A Zarr store in a folder of which only regular files are read."""

from typing import Any

from zarr.storage import LocalStore

from sstcast.errors import check_no_pipe


class RegularFiles(LocalStore):
    """A folder in which a pipe or a device in place of a file, which may never answer, raises ValueError."""

    async def get(self, key: str, *options: Any, **named: Any) -> Any:
        """Return the content of a file, as a `LocalStore` does."""
        check_no_pipe(self.root / key)
        return await super().get(key, *options, **named)

    def get_sync(self, key: str, **named: Any) -> Any:
        """Return the content of a file without waiting for other tasks."""
        check_no_pipe(self.root / key)
        return super().get_sync(key, **named)
