"""Compare the linear base of networks with the same system run alone: `python perf/own_base.py [REGION...]`.

Both are local ridges with memory and stencil, fitted to the same years before each fold: the base to one span, the
system to training and validation years, without the windows that cross their border. Prints the ratio of their
squared errors on the folds of docs/results.md, for the whole ocean that ships or for regions of it, such as
`tasman-north-west`.
"""

import sys
import tempfile

import numpy as np
import torch

import sstcast
from sstcast.forecasting.system import Fits, Models
from sstcast.hindcasts.plan import Protocol
from sstcast.models import build_forecaster
from sstcast.ocean.lead_weeks import lead_weeks
from sstcast.ocean.prepared import Prepared
from sstcast.scores.analysis import Analysis
from sstcast.scores.combine import error_products
from sstcast.training.forecast_task import fit
from sstcast.training.train import training_windows

SYSTEM = {"memory": True, "stencil": True}


def compare(region: str) -> None:
    """Print the ratio of each fold of a region, then of all folds."""
    protocol, totals = Protocol.parse("1997:2016", 4, 2, 3), []
    with tempfile.TemporaryDirectory() as folder:
        for fold in protocol.folds:
            places = [f"data.directory={folder}", f"data.region={region}"]
            config = sstcast.load_config("configs/linear-base/mpnn-vn-share.yaml", places)
            data = fold.split(config.data)
            config = config.model_copy(update={"data": data})
            sstcast.prepare(config)
            windows = training_windows(config)["train"]
            sizes = {"history": data.history, "horizon": data.horizon, "shape": windows.shape}
            base = build_forecaster("local-ridge", **sizes, **SYSTEM)
            fit(base, windows, None)
            alone = Fits.of(Prepared.of(data)).system("local-ridge", **SYSTEM)
            predictors = [Models(data.box, data.history, data.horizon, [base], torch.device("cpu")), alone]
            truth = Analysis.open(Prepared.of(data), every=protocol.every)
            days = np.bincount(lead_weeks(1 + np.arange(data.horizon)))
            products = np.einsum("w,wij->ij", days / days.sum(), error_products(predictors, truth))
            totals.append(np.diag(products) * truth.windows.starts)
            print(f"{region}, from {fold.first}: {totals[-1][0] / totals[-1][1]:.4f}", flush=True)
    ours, theirs = np.sum(totals, 0)
    print(f"{region}, all folds: {ours / theirs:.4f}")


if __name__ == "__main__":
    for region in sys.argv[1:] or ["tasman"]:
        compare(region)
