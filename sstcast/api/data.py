"""The public functions for data: load a configuration, prepare and open data, make windows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sstcast.files import at_home

if TYPE_CHECKING:
    import xarray as xr

    from sstcast.config import RunConfig
    from sstcast.ocean.windows import Windows


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> "RunConfig":
    """Read the YAML of a run.

    Args:
        path: a YAML file; files in `configs/` are found outside a checkout too.
        overrides: strings `key.sub=value`, as for `--set` on the command line.

    Raises:
        SSTCastError: the file is absent, or something in it is wrong; the message names the key.

    Examples:
        >>> config = sstcast.load_config("my.yaml", ["training.epochs=1"])
        >>> config.data.history, config.data.horizon
        (10, 5)
    """
    from sstcast.config import load_config

    return load_config(at_home(path), list(overrides))


def prepare(config: "RunConfig | Path | str") -> None:
    """Crop the source to the region and compute anomalies; do nothing if that has been done.

    Raises:
        SSTCastError: the source cannot be read, lacks days or values, or does not fit the region or the splits.

    Source:
        Cai et al. (2023), D.4, for the protocol `paper`.

    Examples:
        >>> sstcast.prepare(config)
    """
    from sstcast.ocean.prepare import prepare_all

    prepare_all(as_config(config).oceans, say=quiet)


def open(config: "RunConfig | Path | str") -> "tuple[xr.Dataset, xr.Dataset]":
    """Open the stores that `prepare` made, lazily.

    Returns:
        The cube, `sst(time, lat, lon)` in degC, NaN on land; and the anomalies, `anomaly(time, lat, lon)` in
        standardised units with `climatology` and `scale(dayofyear, lat, lon)` in degC.

    Raises:
        SSTCastError: the stores are absent or damaged.

    Examples:
        >>> cube, anomalies = sstcast.open(config)
        >>> anomalies["anomaly"].dims
        ('time', 'lat', 'lon')
    """
    from sstcast.ocean.prepared import Prepared

    return Prepared.of(as_config(config).data).open()


def windows(config: "RunConfig | Path | str", split: Literal["train", "validation", "test"]) -> "Windows":
    """Return a split's windows of history and future, T - history - horizon per tile for T days.

    Returns:
        Windows whose `batch(index)` gives `history [B, nodes, history]`, `target [B, nodes, horizon]`, both in
        standardised units, `ocean [B, nodes]` and their `graph`.

    Raises:
        SSTCastError: the stores are absent, or the split is too short for a single window.

    Source:
        Cai et al. (2023), Table 9, for their number.

    Examples:
        >>> train = sstcast.windows(config, "train")
        >>> train.batch(torch.arange(3)).history.shape
        torch.Size([3, 48, 10])
    """
    from sstcast.ocean.windows import cut_windows

    config = as_config(config)
    return cut_windows(open(config)[1], config.data, split)


def as_config(config: "RunConfig | Path | str") -> "RunConfig":
    """Return a configuration unchanged, or read it from a path."""
    return load_config(config) if isinstance(config, (str, Path)) else config


def quiet(line: str) -> None:
    """Print nothing."""
