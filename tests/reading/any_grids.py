"""Grids of ocean models, and sources on them whose field is known everywhere."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import xarray as xr

from sstcast.config import DataConfig, Region, Splits
from sstcast.geo import Box
from sstcast.reading.reading import open_region
from sstcast.reading.source_grid import of_nodes, structured
from sstcast.reading.weights import (
    SourceGrid,
    TargetGrid,
    unit_vectors,
)
from sstcast.types import Array

DAYS = np.arange("2001-01-01", "2001-01-13", dtype="datetime64[D]").astype("datetime64[ns]")
AMPLITUDE = 8.0
MESH = 61  # nodes along a side of a mesh


def temperature(lat: Array, lon: Array) -> Array:
    """A field that is smooth on the sphere, in degC."""
    vectors = unit_vectors(lat, lon)
    turned = vectors @ np.array([0.3, 0.5, 0.81])
    across = vectors @ np.array([0.8, -0.6, 0.1])
    field: Array = 12 + AMPLITUDE * np.sin(3 * turned) * np.cos(2 * across)
    return field


def rotated(cells: int, lon: float = 0.0) -> tuple[Array, Array]:
    """A square of 50 degrees around 30 N and `lon`, regular about a rotated pole."""
    side = np.linspace(-25, 25, cells)
    vectors = unit_vectors(*np.meshgrid(side, side, indexing="ij"))
    tilt, turn = np.radians(30), np.radians(lon)
    tilted = vectors @ np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    moved = tilted @ np.array([[np.cos(turn), np.sin(turn), 0], [-np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    return np.degrees(np.arcsin(moved[..., 2])), np.degrees(np.arctan2(moved[..., 1], moved[..., 0]))


def tripolar(columns: int) -> tuple[Array, Array]:
    """A globe from 60 S with two poles at 60 N, folded between them; its last two columns repeat the first.

    The cap is a strip between two poles, `log((1 + w) / (1 - w))` of the stereographic plane.
    """
    lon = (np.arange(columns) + 0.5) * 360 / columns
    south = np.arange(-60, 60, 360 / columns)
    rows = len(south) + columns // 8
    share = (np.arange(1, columns // 8 + 1) - 0.5) / (columns // 8)
    turned = np.exp(1j * np.radians(lon))
    strip = np.log((1 + turned) / (1 - turned))
    inner = np.tanh((strip.real + 1j * strip.imag * (1 - share[:, None])) / 2)
    lat = np.empty((rows, columns))
    lat[: len(south)] = south[:, None]
    lat[len(south) :] = 90 - np.degrees(2 * np.arctan(abs(inner) * np.tan(np.radians(30) / 2)))
    lons = np.broadcast_to(lon, lat.shape).copy()
    lons[len(south) :] = np.degrees(np.angle(inner))
    return tuple(np.concatenate([field, field[:, :2]], axis=1) for field in (lat, lons))  # type: ignore[return-value]


def polar(spacing_km: float) -> tuple[Array, Array]:
    """A polar stereographic grid around the North Pole."""
    crs = pyproj.CRS.from_proj4("+proj=stere +lat_0=90 +lat_ts=70 +lon_0=-45 +R=6371000")
    side = np.arange(-3.5e6, 3.5e6, 1000 * spacing_km)
    transformer = pyproj.Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)
    lon, lat = transformer.transform(*np.meshgrid(side, side))
    return lat, lon


def mesh(cells: int) -> tuple[Array, Array, Any]:
    """Nodes of a square of 30 degrees that are a little out of line, and triangles between them."""
    side = np.linspace(0, 30, cells)
    lat, lon = np.meshgrid(side, side, indexing="ij")
    moves = np.random.default_rng(0).normal(0, 0.1 * 30 / cells, (2, cells, cells))
    at = np.arange(cells**2).reshape(cells, cells)
    corners = at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1]
    halves = [np.stack([corners[i] for i in half], axis=-1).reshape(-1, 3) for half in ((0, 1, 2), (0, 2, 3))]
    return (lat + moves[0]).ravel(), (lon + moves[1]).ravel(), np.concatenate(halves)


def tripolar_cells(size: int) -> SourceGrid:
    return structured(*tripolar(size))


def mesh_cells(size: int) -> SourceGrid:
    return of_nodes(*mesh(size))


GRIDS: dict[str, tuple[Callable[[int], SourceGrid], tuple[int, int], Box]] = {
    "rotated": (lambda size: structured(*rotated(size)), (51, 101), Box(-10, 10, 20, 40)),
    "date-line": (lambda size: structured(*rotated(size, 180)), (51, 101), Box(170, -170, 20, 40)),
    "tripolar": (tripolar_cells, (180, 360), Box(-180, 180, 20, 88)),
    "seam": (tripolar_cells, (180, 360), Box(-10, 10, -20, 20)),
    "polar": (lambda size: structured(*polar(7000 / size)), (70, 140), Box(-180, 180, 66, 88)),
    "mesh": (mesh_cells, (40, 80), Box(5, 25, 5, 25)),
    "points": (lambda size: of_nodes(*mesh(size)[:2], None), (40, 80), Box(5, 25, 5, 25)),
}


def at_centres(target: TargetGrid) -> Array:
    return temperature(*np.meshgrid(target.lat, target.lon, indexing="ij")).ravel()


def values_of(source: SourceGrid) -> Array:
    x, y, z = source.centres.T
    return temperature(np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x)))


def grid_of_box(box: Box, spacing: float) -> TargetGrid:
    return TargetGrid(box, round((box.north - box.south) / spacing), round(box.width / spacing))


def configured(source: Path, box: Box, grid: float | None, **region: Any) -> DataConfig:
    cells = {"lon": (box.west, box.east), "lat": (box.south, box.north), "tile": (2, 2), **region}
    year = (dt.date(2001, 1, 1), dt.date(2001, 12, 31))
    splits = Splits.model_construct(train=year, validation=year, test=year, base_period=None)
    return DataConfig.model_construct(
        source=str(source), grid=grid, region=Region(**cells), directory=source.parent / "prepared", splits=splits
    )


def dataset_on(
    lat: Array, lon: Array, dims: tuple[str, ...], names: tuple[str, str] = ("nav_lat", "nav_lon")
) -> xr.Dataset:
    warming = 0.01 * np.arange(len(DAYS)).reshape(-1, *(1,) * lat.ndim)
    field = (temperature(lat, lon) + warming).astype(np.float32)
    positions = {
        name: (dims, values, {"units": units})
        for name, values, units in zip(names, (lat, lon), ("degrees_north", "degrees_east"), strict=True)
    }
    attributes = {"units": "degC", "standard_name": "sea_surface_temperature"}
    return xr.Dataset({"tos": (("time", *dims), field, attributes)}, {"time": DAYS, **positions})


def opened(data: DataConfig) -> xr.DataArray:
    with open_region(data) as sst:
        return sst.load()


def check(found: xr.DataArray, tolerance: float) -> None:
    lat, lon = np.meshgrid(found["lat"], found["lon"], indexing="ij")
    assert found.notnull().all()
    for day in (0, -1):
        expected = temperature(lat, lon) + 0.01 * (day % len(DAYS))
        assert abs(found[day].values - expected).max() < tolerance


def as_curvilinear() -> xr.Dataset:
    return dataset_on(*rotated(101), ("j", "i"))


def as_kelvin() -> xr.Dataset:
    dataset = as_curvilinear()
    dataset["tos"] = (dataset["tos"] + np.float32(273.15)).assign_attrs(dataset["tos"].attrs, units="K")
    return dataset


def with_vertices() -> xr.Dataset:
    dataset = as_curvilinear()
    corners = structured(*rotated(101)).polygons.reshape(101, 101, 4, 3)
    dataset["nav_lat"].attrs["bounds"], dataset["nav_lon"].attrs["bounds"] = "lat_vertices", "lon_vertices"
    dims = ("j", "i", "vertex")
    dataset["lat_vertices"] = dims, np.degrees(np.arcsin(corners[..., 2]))
    dataset["lon_vertices"] = dims, np.degrees(np.arctan2(corners[..., 1], corners[..., 0]))
    return dataset


def as_projection() -> xr.Dataset:
    """X and y in metres and a grid mapping alone."""
    crs = pyproj.CRS.from_proj4("+proj=laea +lat_0=30 +lon_0=0 +R=6371000")
    side = np.arange(-1.6e6, 1.6e6, 5e4)
    transformer = pyproj.Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True)
    lon, lat = transformer.transform(*np.meshgrid(side, side))
    dataset = dataset_on(lat, lon, ("y", "x")).drop_vars(["nav_lat", "nav_lon"])
    dataset["tos"].attrs["grid_mapping"] = "crs"
    dataset["crs"] = (), 0, crs.to_cf()
    axes = {axis: (axis, side, {"standard_name": f"projection_{axis}_coordinate", "units": "m"}) for axis in "xy"}
    return dataset.assign_coords(axes)


def as_rotated_pole() -> xr.Dataset:
    """Rotated latitudes and longitudes and a grid mapping alone."""
    mapping = {
        "grid_mapping_name": "rotated_latitude_longitude",
        "grid_north_pole_latitude": 60.0,
        "grid_north_pole_longitude": 180.0,
    }
    side = np.linspace(-25, 25, 101)
    dataset = dataset_on(*rotated(101), ("rlat", "rlon")).drop_vars(["nav_lat", "nav_lon"])
    dataset["rotated_pole"] = (), 0, mapping
    dataset["tos"].attrs["grid_mapping"] = "rotated_pole"
    names = {"rlat": "grid_latitude", "rlon": "grid_longitude"}
    return dataset.assign_coords(
        {n: (n, side, {"standard_name": s, "units": "degrees"}) for n, s in names.items()}
    )


def as_mesh(connectivity: str) -> xr.Dataset:
    """FVCOM's `nv`, FESOM's `elem` or UGRID's topology, counted from 1, 1 and 0, or points alone."""
    side = np.linspace(-12, 12, MESH)
    lat, lon = np.meshgrid(side + 30, side, indexing="ij")
    _, _, triangles = mesh(MESH)
    dataset = dataset_on(lat.ravel(), lon.ravel(), ("node",), ("lat", "lon"))
    if connectivity == "nv":
        dataset["nv"] = ("three", "nele"), triangles.T + 1
    elif connectivity == "elem":
        dataset["elem"] = ("elements", "three"), triangles + 1
    elif connectivity == "ugrid":
        attributes = {"cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "lon lat"}
        dataset["topology"] = (), 0, attributes | {"face_node_connectivity": "triangles"}
        dataset["triangles"] = ("face", "three"), triangles, {"start_index": 0}
        dataset["tos"].attrs |= {"mesh": "topology", "location": "node"}
    return dataset


def as_triangles() -> xr.Dataset:
    """Values on triangles with the vertices of each, in radians, as of ICON."""
    side = np.linspace(-12, 12, 41)
    lat, lon = np.meshgrid(side + 30, side, indexing="ij")
    _, _, triangles = mesh(41)
    corners = lat.ravel()[triangles], lon.ravel()[triangles]
    dataset = dataset_on(corners[0].mean(1), corners[1].mean(1), ("cell",), ("clat", "clon"))
    for name, axis, vertices in (("clat", "latitude", corners[0]), ("clon", "longitude", corners[1])):
        attributes = {"standard_name": axis, "units": "radian", "bounds": f"{name}_vertices"}
        dataset[name] = ("cell", np.radians(dataset[name].values), attributes)
        dataset[f"{name}_vertices"] = ("cell", "nv"), np.radians(vertices)
    return dataset


SOURCES: dict[str, Callable[[], xr.Dataset]] = {
    "curvilinear": as_curvilinear,
    "kelvin": as_kelvin,
    "vertices": with_vertices,
    "projection": as_projection,
    "rotated-pole": as_rotated_pole,
    "fvcom": lambda: as_mesh("nv"),
    "fesom": lambda: as_mesh("elem"),
    "ugrid": lambda: as_mesh("ugrid"),
    "icon": as_triangles,
    "points": lambda: as_mesh(""),
}
