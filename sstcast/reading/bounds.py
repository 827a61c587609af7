"""Bounds of the values on an axis (CF conventions, section 7.1), however a file orders them."""

import xarray as xr


def bounds_name(axis: xr.DataArray | xr.Variable) -> str:
    """Return the name of the bounds of an axis, "" if it has none.

    It is an attribute, which xarray moves to the encoding if it decodes all coordinates.
    """
    return str(axis.attrs.get("bounds") or axis.encoding.get("bounds") or "")


def bounds_of(axis: xr.DataArray, dataset: xr.Dataset) -> xr.DataArray | None:
    """Return the bounds `(*dimensions of the axis, corner)`, or None if the dataset has none of this shape.

    The corners are on the dimension that is not the axis's, wherever it stands. If an axis got its dimension
    later, from a scalar or from another axis, that is the last one of size 2.
    """
    if (name := bounds_name(axis)) not in dataset.variables:
        return None
    bounds = dataset[name].reset_coords(drop=True)
    corners = [dim for dim in bounds.dims if dim not in axis.dims]
    if len(corners) > 1:
        corners = [dim for dim in corners if bounds.sizes[dim] == 2][-1:]
    if len(corners) != 1 or bounds.size != axis.size * bounds.sizes[corners[0]]:
        return None
    order = [dim for dim in axis.dims if dim in bounds.dims]
    return bounds.transpose(*order, ..., corners[0])
