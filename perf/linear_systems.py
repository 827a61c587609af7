"""Hindcasts of linear systems on several oceans, so that no single box flatters a system.

    python perf/linear_systems.py                    # the ocean that ships, its quarters, and other years of it
    python perf/linear_systems.py --oceans south-west --every 6

Prints, for each ocean and system, the area-weighted mean squared error in degC2 of all folds and the ratio to
`local-ridge`: of all folds, with Student's interval over the folds' ratios, and of the leads 1, 2, 3, 7, 14 and
28. Each fold of four years is forecast by systems that are fitted to all days before it, as `sstcast hindcast`
does.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import scipy.stats
import torch

from sstcast.config import DataConfig, RunConfig, load_config
from sstcast.forecasting.system import Fits
from sstcast.geo import area_weights
from sstcast.hindcasts.plan import Protocol
from sstcast.models import days_before
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import whole_windows
from sstcast.training.forecast_task import in_parts

SYSTEMS = ("local-ridge", "multiscale-ridge", "multiscale-memory-stencil", "local-memory-stencil")
QUARTERS = ("south-west", "south-east", "north-west", "north-east")
OCEANS = {
    "shipped": ("tasman", 1997),
    **{name: (f"tasman-{name}", 1997) for name in QUARTERS},
    "from 1992": ("tasman", 1992),
}
LEADS = (1, 2, 3, 7, 14, 28)


@torch.no_grad()
def errors(data: DataConfig, systems: list[RunConfig], every: int) -> dict[str, np.ndarray]:
    """Return the mean squared error in degC2 by lead of each system on the test days, cells weighted by area."""
    prepare(data)
    anomalies = (prepared := Prepared.of(data)).open_anomalies()
    fits, found = Fits.of(prepared), {}
    weights = (area_weights(anomalies["lat"]) * anomalies["scale"].mean("dayofyear") ** 2).transpose("lat", "lon")
    area = area_weights(anomalies["lat"]) * anomalies["ocean_mask"]
    for system in systems:
        name, options = system.model.name, system.model.options
        model, total, count = fits.model(name, **options), np.zeros(data.horizon), 0
        test = whole_windows(anomalies, data, "test", days_before(name, options, data.history))
        for part in in_parts(test)(every):
            squares = ((model.forecast_windows(part) - part.spans(data.history, data.horizon)) * part.ocean)[
                :, :, 0
            ].square()
            total += squares.sum(0).double().numpy() @ weights.values.ravel()
            count += part.starts
        found[system.name] = total / count / float(area.sum())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oceans", nargs="+", choices=OCEANS, default=[*OCEANS])
    parser.add_argument("--every", type=int, default=3, help="days from one initial date to the next")
    parser.add_argument("--directory", type=Path, default=Path("data/prepared"), help="of prepared data")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    systems = [load_config(Path(f"configs/linear/{name}.yaml")) for name in SYSTEMS]
    print("| ocean | system | MSE, °C² | ratio to local-ridge, over folds | " + " | ".join(map(str, LEADS)) + " |")
    print("|---" * (4 + len(LEADS)) + "|")
    for ocean in options.oceans:
        region, first = OCEANS[ocean]
        started = time.process_time()
        place = systems[0].data.model_copy(update={"region": region, "directory": options.directory})
        folds = Protocol(first, 2016).folds
        scored = [errors(fold.split(place), systems, options.every) for fold in folds]
        years = np.array([fold.last - fold.first + 1 for fold in folds])
        reference = np.stack([fold[SYSTEMS[0]] for fold in scored])
        for name in SYSTEMS:
            mine = np.stack([fold[name] for fold in scored])
            by_fold, by_lead = mine.mean(1) / reference.mean(1), (years @ mine) / (years @ reference)
            low, high = scipy.stats.t.interval(
                0.95, len(folds) - 1, by_fold.mean(), scipy.stats.sem(by_fold) or 1e-9
            )
            ratio = (years @ mine).sum() / (years @ reference).sum()
            leads = " | ".join(f"{by_lead[lead - 1]:.4f}" for lead in LEADS)
            mse = (years @ mine).mean() / years.sum()
            print(f"| {ocean} | {name} | {mse:.4f} | {ratio:.3f}, {low:.3f}-{high:.3f} | {leads} |", flush=True)
        print(f"{ocean}: {time.process_time() - started:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
