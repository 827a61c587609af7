"""Figures, maps and pages of scores and forecasts."""
