"""From forecasts of the test days to scores, with intervals and tests."""
