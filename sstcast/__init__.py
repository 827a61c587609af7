"""Forecasting sea surface temperature with graph networks."""

__version__ = "0.1.0"
