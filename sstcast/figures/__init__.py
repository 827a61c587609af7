"""Figures, maps and tables of scores and forecasts."""
