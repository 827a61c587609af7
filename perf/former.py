"""Scores in the form that they had before version 7 of `metrics.json`."""

from typing import Any

Scores = dict[str, Any]
MODEL, CLIMATE = "model", "climatology"


def skill(compared: Scores, baseline: bool = True) -> Scores:
    """Return a comparison as skill, 1 - ratio."""

    def less(values: Any) -> Any:
        if isinstance(values, list):
            return [less(value) for value in values]
        return None if values is None else round(1 - values, 6)

    def ends(interval: list[Any]) -> list[Any]:
        return less(interval[::-1])

    season = compared["by_season"]
    found = {
        "overall": less(compared["ratio"]),
        "interval": ends(compared["interval"]),
        "p_value": compared["p_value"],
        "by_lead": less(compared["by_lead"]["ratio"]),
        "by_lead_interval": [ends(interval) for interval in compared["by_lead"]["interval"]],
        "by_lead_p_value": compared["by_lead"]["p_value"],
        "by_season": {name: less(ratio) for name, ratio in season["ratio"].items()},
        "by_season_interval": {name: ends(interval) for name, interval in season["interval"].items()},
    }
    return found | {key: compared[key] for key in ("better", "worse") if compared.get(key) is not None}


def of_run(metrics: Scores) -> Scores:
    """Return the scores of a run, or of the forecasts of a file."""
    ratios, every = metrics["ratios"], metrics["every"]
    block = metrics["block_days"]
    against = {
        units: ratios[loss][MODEL] for units, loss in (("standardised", "mse_standardised"), ("degC", "mse"))
    }
    probabilities = {
        name: of | {"skill": skill(ratios["crps"][name][CLIMATE])} for name, of in metrics["probabilities"].items()
    }
    return {
        **metrics,
        **metrics["systems"][MODEL],
        "block": None if block is None else block // every,
        "skill": {units: {name: skill(of) for name, of in some.items()} for units, some in against.items()},
        "probabilities": probabilities,
        "heatwaves": {
            kind: {"scores": of, "skill": {name: skill(one) for name, one in ratios[kind][MODEL].items()}}
            for kind, of in metrics["heatwaves"].items()
        },
        "ensemble": metrics["ensemble"].get(MODEL),
    }


def of_hindcast(metrics: Scores) -> Scores:
    """Return the scores of a hindcast."""
    reference, ratios = metrics["reference"], metrics["ratios"]
    horizon = metrics["horizon"]

    def lists(scores: Scores, compared: Scores, key: str) -> Scores:
        return {key: scores[key]} | {name: compared[name] for name in ("ratio", "interval")}

    def named(
        scores: Scores, compared: Scores, keys: list[str], names: tuple[str, ...] = ("ratio", "interval")
    ) -> Scores:
        return {
            part: {key: scores[key][part] for key in keys} | {name: compared[name][part] for name in names}
            for part in scores[keys[0]]
        }

    def less(ratio: Any) -> Any:
        if isinstance(ratio, list):
            return [less(one) for one in ratio]
        if isinstance(ratio, dict):
            return {name: less(one) for name, one in ratio.items()}
        return None if ratio is None else round(1 - ratio, 6)

    systems = {}
    gaussian = ["crps", "spread", "spread_skill", "covered_50", "covered_80", "covered_95"]
    for name, own in metrics["systems"].items():
        scores, mse = metrics["scores"][name]["degC"], ratios["mse"][name][reference]
        of, crps, saved = metrics["probabilities"][name], ratios["crps"][name][reference], ratios["crps"][name]
        saved = next(of for other, of in saved.items() if other.startswith(CLIMATE))
        by_fold = named(of["by_fold"], crps["by_fold"], gaussian)
        for fold in by_fold:
            by_fold[fold]["skill"] = less(saved["by_fold"]["ratio"][fold])
        systems[name] = {
            **own,
            **lists(scores, mse, "mse"),
            "p_value": mse["p_value"],
            **{by: lists(scores[by], mse[by], "mse") for by in ("by_lead", "by_week")},
            **{by: named(scores[by], mse[by], ["mse"]) for by in ("by_season", "by_fold")},
            **{key: mse[key] for key in ("better", "worse")},
            "probabilities": {
                **{key: of[key] for key in gaussian},
                **{key: crps[key] for key in ("ratio", "interval")},
                "skill": less(saved["ratio"]),
                "by_lead": {key: of["by_lead"][key] for key in gaussian}
                | {key: crps["by_lead"][key] for key in ("ratio", "interval")}
                | {"skill": less(saved["by_lead"]["ratio"])},
                "by_fold": by_fold,
            },
        }
    warned: Scores = {}
    for kind, found in metrics["heatwaves"].items():
        warned[kind] = {"scores": {}}
        for name, of in found.items():
            compared, base = ratios[kind][name][reference], ratios[kind][name]["base rate"]
            more = {key: compared[key] for key in ("ratio", "interval")} | {"skill": less(base["ratio"])}
            warned[kind]["scores"][name] = {**of, **more} | {
                by: of[by]
                | {key: compared[by][key] for key in ("ratio", "interval")}
                | {"skill": less(base[by]["ratio"])}
                for by in ("by_lead", "by_fold")
            }
    protocol = metrics["protocol_of_hindcast"]
    return {**metrics, **protocol, "systems": systems, "heatwaves": warned, "horizon": horizon}
