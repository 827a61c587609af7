"""Figures, maps and HTML pages of scores and forecasts."""
