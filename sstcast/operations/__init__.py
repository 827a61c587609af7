"""Daily operation of a forecast."""
