"""Scores and forecasts as figures, maps and pages."""
