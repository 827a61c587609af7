"""Hindcasts: many years of forecasts, each by a model that was trained only on earlier years."""
