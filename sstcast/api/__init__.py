"""The public functions, which `sstcast` exports and the commands call. They defer imports until a call.

They raise `SSTCastError`, with a one-line message, for every error that a user can fix. They log each step (see
`sstcast.log`), and the longest print it: `fetch`, `hindcast`, `table`, `table5` and `benchmark`.

These arguments mean the same in all functions, unless a function describes its own:

Args:
    config: a run's YAML, for instance `configs/demo.yaml`, or in Python a configuration.
    overrides: change the YAML with `key.sub=value`, for instance `training.epochs=3`.
    run: a run's folder, for instance `runs/demo`, or `pretrained`, the run that ships with sstcast.
    region: another region, as a name in `configs/regions.yaml` or `W,E,S,N` in degrees.
    source: other data, as a NetCDF file, a Zarr store or a folder of either. Without a region, the run's own
        region if they contain it, else all of them; in Python also an xarray object. If the run was made from one,
        they must hold the same days, unless a region is given.
    variable: name of the SST variable, if it is not found automatically.
    units: units of SST, for instance `K`, in place of those that the file or store states.
    gaps: fill gaps of up to this many days. By default, as in the run's configuration.
    index: also score the initial dates in the lower, middle and upper third of an index separately. The index is a
        box, such as `nino34`, on the first day forecast, or a CSV of initial dates and values.
    places: also score the means of the places in this file, a CSV with the columns `name`, `lat`, `lon`, or
        GeoJSON with points and polygons.
    seeds: train one run or member per seed, for instance `0..4` (both included); in Python also numbers.
    max_size: maximum size of the page in MB.
    scheduler: address of a dask cluster that sees the same files, for instance `tcp://host:8786`.
"""
