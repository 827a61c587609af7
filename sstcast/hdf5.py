"""Checks where an HDF5 file keeps its values: an untrusted file may refer to other files on this computer.

h5py can report such references without following them; the netCDF library follows them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py

LONGEST_AXIS = 10**7  # opening a file reads its axes; no data set has more cells or days than this
MOST_OBJECTS = 10_000


class Refused(Exception):
    """A file contains something that is not allowed; the text says what."""


def check_hdf5(file: "h5py.File") -> None:
    """Raise Refused if the file links to other files, keeps values in them, or is built to exhaust its reader.

    Soft links are safe: they stay inside the file, since no other link leads out of it.
    """
    import h5py  # not above: `stores` needs it for NetCDF files only

    groups, seen = [file], {h5py.h5o.get_info(file.id).addr}
    while groups:
        group = groups.pop()
        for name in group:
            link = group.get(name, getlink=True)
            where = f"{group.name.rstrip('/')}/{name}"
            if isinstance(link, h5py.ExternalLink):
                raise Refused(f"{where} is a link to another file")
            if not isinstance(link, h5py.HardLink):
                continue
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                if isinstance(item, h5py.Group):  # the netCDF library would loop forever
                    raise Refused(f"{where} is a group with two names")
                continue
            seen.add(address)
            if len(seen) > MOST_OBJECTS:
                raise Refused(f"more than {MOST_OBJECTS:,} objects")
            if isinstance(item, h5py.Group):
                groups.append(item)
            elif isinstance(item, h5py.Dataset):
                _check_dataset(item, where)


def _check_dataset(item: "h5py.Dataset", where: str) -> None:
    import h5py

    plist = item.id.get_create_plist()
    if plist.get_layout() == h5py.h5d.VIRTUAL or plist.get_external_count():
        raise Refused(f"{where} keeps its values in another file")
    if item.ndim == 1 and item.size > LONGEST_AXIS:
        raise Refused(f"{where}: an axis of more than {LONGEST_AXIS:,}")
