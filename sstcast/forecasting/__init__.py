"""Forecasts on the map from the last days of SST."""
