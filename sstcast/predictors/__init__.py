"""Predictors besides SST: fields, forecasts, indices and constants, and what is known of them when."""
