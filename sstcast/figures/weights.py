"""The table of the weights of a combination."""

from sstcast.figures.sheets.sheet import Sheet, number
from sstcast.runs import Run


def weights(run: Run) -> Sheet:
    """Return a table of the weights of a combination by lead week."""
    # Imported here because it needs PyTorch, which no other table does.
    from sstcast.forecasting.system import load_combination

    week_weights = load_combination(run)
    names = ["/".join(step for step in part.run.parts if step != "..") for part in run.parts]
    rows = [(name, [number(weight) for weight in row]) for name, row in zip(names, week_weights.T, strict=True)]
    header = [f"week {1 + week}" for week in range(len(week_weights))]
    return Sheet(f"Weights of {run.folder.name} by lead week", header, rows)
