"""The public functions, which `sstcast` exports and the commands call; each imports what it needs when called.

They raise `SSTCastError`, with a one-line message, for whatever a user can mend: a file, a name, a value.

Arguments of these names mean the same in all of them, unless a function describes its own:

Args:
    config: a run's YAML, for instance `configs/demo.yaml`; in Python also a configuration.
    overrides: changes to the YAML, each `key.sub=value`, for instance `training.epochs=3`.
    run: a run's folder, for instance `runs/demo`, or `pretrained`, the run that ships with sstcast.
    region: another region: a name in `configs/regions.yaml`, or `W,E,S,N` in degrees.
    source: another ocean: a NetCDF file, a Zarr store or a folder of either.
    variable: the variable of the temperatures, if it is not found automatically.
    units: their units, if the file or store does not state them, for instance `K`.
    gaps: fill gaps of at most so many days; by default as in the run's configuration.
    index: give scores also by third of an index on the initial date: a box of the scores, such as `nino34`, or a
        CSV of dates and values.
    seeds: one run or member per seed, for instance `0..4`; in Python also numbers.
    max_size: the largest page to write, in MB.
    scheduler: address of a dask cluster that sees the same files, for instance `tcp://host:8786`.
    say: a function that gets a line of text for each step done; by default only the longest tasks print them.
"""
