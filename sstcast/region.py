"""A region of the ocean, as `configs/regions.yaml` and configurations describe it."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from sstcast.errors import SSTCastError
from sstcast.files import packaged
from sstcast.geo import Box
from sstcast.plain_yaml import read_yaml
from sstcast.validation import Strict, suggest, validate

Side = Annotated[int, Field(ge=1, le=10_000)]  # of a tile or a node, in cells


class Region(Strict):
    """A box of the ocean and how it is divided into tiles.

    `lon` and `lat` are cell edges in degrees (longitudes in any convention, west first, so a box may cross
    the date line or Greenwich). `coarsen` x `coarsen` cells of the source become one node, if at least a
    fraction `min_ocean` of them is ocean. `tile` is (rows, columns) of nodes. Tiles are numbered row by row from
    the south-west, and those in `skip` are left out. A tile that is all land is refused unless `land_tiles`
    is `keep`.
    """

    lon: tuple[float, float]
    lat: tuple[float, float]
    coarsen: Side = 1
    min_ocean: float = Field(default=0.5, gt=0, le=1)
    tile: tuple[Side, Side] = (30, 30)
    skip: tuple[int, ...] = ()
    land_tiles: Literal["refuse", "keep"] = "refuse"

    @property
    def bounds(self) -> Box:
        return Box(*self.lon, *self.lat)

    @field_validator("lat")
    @classmethod
    def _south_to_north(cls, lat: tuple[float, float]) -> tuple[float, float]:
        if lat[0] > lat[1]:
            raise ValueError(f"[{lat[0]:g}, {lat[1]:g}] is north first; write [{lat[1]:g}, {lat[0]:g}]")
        if not -90 <= lat[0] < lat[1] <= 90:
            raise ValueError("must be [south, north] within -90..90, and not empty")
        return lat

    @field_validator("lon")
    @classmethod
    def _west_to_east(cls, lon: tuple[float, float]) -> tuple[float, float]:
        west, east = lon
        if not (-360 <= west <= 720 and -360 <= east <= 720) or west == east or east - west > 360:
            raise ValueError("must be [west, east] within -360..720, not empty and no more than once around")
        return lon


def load_region(name: str) -> Region:
    """Look a region up in `configs/regions.yaml`."""
    path = packaged("configs/regions.yaml")
    regions = read_yaml(path)
    if name not in regions:
        raise SSTCastError(f"data.region: no region {name!r}{suggest(name, regions)}; known: {', '.join(regions)}")
    return validate(Region, regions[name], f"{path.name}: {name}")


def parse_box(region: str) -> Box:
    """Read `global`, a name in `configs/regions.yaml` or `W,E,S,N` in degrees.

    Raises SSTCastError if `region` is none of these, or contains no 0.25 degree cell.
    """
    if region == "global":
        return Box(0, 360, -90, 90)
    if "," not in region:
        box = load_region(region).bounds
    else:
        try:
            edges = [float(edge) for edge in region.split(",")]
            if len(edges) != 4 or not all(abs(edge) <= 360 for edge in edges):  # also refuses nan
                raise ValueError
        except ValueError:
            raise SSTCastError(
                f"--region {region}: write W,E,S,N in degrees, for instance 180,270,-15,15"
            ) from None
        box = validate(Region, {"lon": edges[:2], "lat": edges[2:]}, f"--region {region}").bounds
    if 0 in box.shape:
        raise SSTCastError(f"--region {region}: contains no 0.25 degree cell; make it larger")
    return box
