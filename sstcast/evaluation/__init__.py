"""How good the forecasts are, beside honest baselines, and where."""
