"""Verification: scores of forecasts on the test days, with confidence intervals and significance tests."""
