"""Base maps: a box of the globe in one of cartopy's projections, with land and degree labels.

All coordinates are degrees east of the box's central longitude and degrees north, so a box may cross the date line
or Greenwich. The land polygons (Natural Earth 1:50m) ship with sstcast, so nothing is downloaded.
"""

import gzip
import inspect
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import cartopy.crs as ccrs
import numpy as np
import shapely
import xarray as xr
from cartopy.mpl.path import shapely_to_path
from cartopy.mpl.ticker import LatitudeFormatter, LongitudeFormatter
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import NDArray
from pyproj.exceptions import CRSError

from sstcast.errors import SSTCastError
from sstcast.geo import Box
from sstcast.storage.paths import packaged
from sstcast.storage.yaml_files import suggest

DEFAULT_PROJECTION = "PlateCarree"
EXAMPLES = f"; for instance {DEFAULT_PROJECTION}, Robinson or LambertAzimuthalEqualArea"
LAND, COAST = "0.62", "0.15"  # greys
REGIONAL = 180  # largest width, in degrees of longitude, of a box whose map is cropped to it
OUTLINE_STEP = 0.5  # degrees between points of the outline, so that it follows the projection
INCHES_PER_LABEL = 0.65
SEAM = 180 - 1e-6  # degrees from the centre at which a global view ends, so that its two edges remain distinct


@dataclass(frozen=True)
class View:
    """A view of a `box` in the cartopy projection `name`, centred on the box if the projection allows it.

    An equirectangular view (`PlateCarree`) is stretched to have correct proportions at its middle latitude.
    """

    box: Box
    name: str = DEFAULT_PROJECTION

    @cached_property
    def degrees(self) -> ccrs.PlateCarree:
        """The coordinate system for drawing: degrees east of the centre and degrees north."""
        return _degrees(_signed(self.box.centre))

    @cached_property
    def projection(self) -> Any:
        """The projection for this box.

        Raises SSTCastError if cartopy has no projection of that name, or PROJ is too old for it.
        """
        classes = projections()
        if self.name not in classes:
            nearest = suggest(self.name, classes) or EXAMPLES
            raise SSTCastError(f"--projection {self.name}: cartopy has no projection of that name{nearest}")
        try:
            return _projection(self.name, self.box)
        except CRSError as error:
            reason = " ".join(str(error).split())
            raise SSTCastError(
                f"--projection {self.name}: is not available for this box ({reason}); choose another"
            ) from None

    @cached_property
    def outline(self) -> Any:
        """The outline of the map in the projection's coordinates: the box, or a rectangle around a wide box.

        Raises SSTCastError if the projection shows no part of the box.
        """
        half, south, north = min((self.box.east - self.box.west) / 2, SEAM), self.box.south, self.box.north
        if self.regional:
            sides = shapely.box(-half, south, half, north)
            outline = self.projection.project_geometry(shapely.segmentize(sides, OUTLINE_STEP), self.degrees)
        else:
            lon, lat = np.meshgrid(np.linspace(-half, half, 361), np.linspace(south, north, 181))
            points = self.projection.transform_points(self.degrees, lon, lat)[..., :2].reshape(-1, 2)
            cloud = shapely.MultiPoint(points[np.isfinite(points).all(-1)])
            outline = cloud.envelope.intersection(self.projection.domain.envelope)
        if outline.is_empty:
            raise SSTCastError(f"--projection {self.name}: does not show this region; choose another{EXAMPLES}")
        return outline

    @property
    def regional(self) -> bool:
        """Whether the map is cropped to the box."""
        return self.box.east - self.box.west <= REGIONAL

    @property
    def stretch(self) -> float:
        """The ratio of the vertical to the horizontal scale."""
        if not isinstance(self.projection, ccrs.PlateCarree):
            return 1.0
        return float(1 / np.cos(np.radians(self.box.middle)))

    @property
    def shape(self) -> float:
        """The height of the map divided by its width."""
        left, bottom, right, top = self.outline.bounds
        return self.stretch * (top - bottom) / (right - left)

    def x(self, lon: NDArray[Any]) -> NDArray[Any]:
        """Convert longitudes in the box to degrees east of its centre."""
        return np.clip(lon - self.box.centre, -SEAM, SEAM)

    def prepare(self, ax: Any) -> None:
        """Set the frame of `ax`, draw the land below all fields, and the coastline above them."""
        left, bottom, right, top = self.outline.bounds
        ax.set(xlim=(left, right), ylim=(bottom, top), aspect=self.stretch)
        if self.regional:
            ax.set_boundary(shapely_to_path(self.outline))
        land = [land_in(self.box)]
        ax.add_geometries(land, crs=self.degrees, facecolor=LAND, edgecolor="none", zorder=0.5)
        ax.add_geometries(land, crs=self.degrees, facecolor="none", edgecolor=COAST, linewidth=0.8, zorder=2)

    def is_land(self, field: xr.DataArray) -> NDArray[np.bool_]:
        """Return which cells `[lat, lon]` of `field` have their centres on land."""
        lon, lat = np.meshgrid(field["lon"].values - self.box.centre, field["lat"].values)
        return np.asarray(shapely.contains_xy(land_in(self.box), lon, lat))

    def label(self, ax: Any, *, left: bool, bottom: bool, width: float) -> None:
        """Draw parallels and meridians on a map `width` inches wide, with degrees on the requested sides."""
        box, east_west, style = self.box, LongitudeFormatter(), {"size": "small", "color": "0.1"}
        round_degrees = MaxNLocator(max(3, min(5, int(width / INCHES_PER_LABEL))), steps=[1, 2, 3, 5, 10])
        gridlines = ax.gridlines(
            crs=self.degrees,
            xlocs=FixedLocator([lon - box.centre for lon in round_degrees.tick_values(box.west, box.east)]),
            ylocs=FixedLocator(round_degrees.tick_values(box.south, box.north)),
            xformatter=FuncFormatter(lambda x, _: east_west(_signed(x + box.centre))),
            yformatter=LatitudeFormatter(),
            auto_inline=False,
            rotate_labels=False,
            draw_labels=["left"] * left + ["bottom"] * bottom,
            color=COAST,
            linewidth=0.5,
            alpha=0.5,
            linestyle=":",
            zorder=3,
            xlabel_style=style,
            ylabel_style=style,
        )
        gridlines._auto_update = False  # otherwise cartopy would recompute lines and labels for every frame


@cache
def projections() -> dict[str, Any]:
    """Return cartopy's projections by name."""
    classes = [(name, value) for name, value in inspect.getmembers(ccrs, inspect.isclass) if name[0] != "_"]
    return {name: value for name, value in classes if ccrs.Projection in value.__mro__[1:]}


def _signed(lon: float) -> float:
    return (lon + 180) % 360 - 180


@cache  # cartopy caches data for each projection object, so the objects are reused
def _degrees(centre: float) -> ccrs.PlateCarree:
    return ccrs.PlateCarree(central_longitude=centre)


@cache
def _projection(name: str, box: Box) -> Any:
    """Create a projection with those arguments that it accepts."""
    lon, lat, sixth = _signed(box.centre), box.middle, (box.north - box.south) / 6
    about_equator = abs(lat) < 1  # standard parallels that are symmetric about the equator do not define a cone
    arguments = {
        "central_longitude": lon,
        "central_latitude": lat,
        "standard_parallels": (box.south + sixth, min(box.north - sixth * (not about_equator), 80)),
        "cutoff": -80 if lat >= 0 else 80,
        "zone": int((lon + 180) // 6) + 1,
        "southern_hemisphere": lat < 0,
        "pole_longitude": _signed(lon + 180 * (lat >= 0)),
        "pole_latitude": 90 - abs(lat),
        "central_rotated_longitude": 0 if lat >= 0 else 180,
    }
    cls = projections()[name]
    return cls(**{key: value for key, value in arguments.items() if key in inspect.signature(cls).parameters})


@cache
def _world() -> NDArray[Any]:
    """Read the land polygons of the world, with longitudes from -180 to 180."""
    with gzip.open(packaged("data/map/ne_50m_land.geojson.gz")) as file:
        features = shapely.from_geojson(file.read())
    return np.asarray(shapely.get_parts(shapely.get_parts(features)))


@cache
def land_in(box: Box) -> Any:
    """Return the land within one degree of `box`, in degrees east of its centre and degrees north.

    The union on a grid of 0.005 degrees joins polygons that Natural Earth cuts at the date line. The margin of one
    degree keeps the edges of the clipped polygons out of sight.
    """
    half = min((box.east - box.west) / 2 + 1, SEAM)
    window = shapely.box(-half, max(box.south - 1, -90), half, min(box.north + 1, 90))
    pieces = []
    for turn in range(round(box.west / 360) - 1, round(box.east / 360) + 2):
        shift = np.array([360 * turn - box.centre, 0])
        pieces.append(shapely.intersection(shapely.transform(_world(), lambda xy, s=shift: xy + s), window))
    land = shapely.union_all(pieces, grid_size=0.005)
    shapely.prepare(land)
    return land
