"""The tables of the forecasts of SST that a run reads, beside the run."""

from sstcast.figures.sheets.sheet import Sheet, interval_text, marked, number, sheet_of_systems, shown_leads
from sstcast.types import Scores


def rivals(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table for each forecast: the RMSE by lead of each run that reads it over its own, and the ratio."""
    days = shown_leads(metrics)

    def cells(_name: str, score: Scores) -> list[str]:
        if "by_lead" not in score:
            return ["-"] * (len(days) + 2)
        both = zip(score["by_lead"]["rmse"], score["by_lead"]["rmse_of_rival"], strict=True)
        texts = [f"{number(own)} ({number(other)})" for own, other in both]
        return [marked(score), interval_text(score["interval"]), *(texts[day - 1] for day in days)]

    header = ["ratio", "95 %", *(f"day {day}" for day in days)]
    return [
        sheet_of_systems(
            f"MSE / MSE of the forecast {name}, without its mean error; RMSE °C by lead, in brackets its own",
            header,
            metrics,
            scores,
            label,
            cells,
        )
        for name, scores in metrics.get("rivals", {}).items()
    ]
