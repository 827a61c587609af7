"""Prepared data: the cube, its anomalies, tiles, training windows and splits."""
