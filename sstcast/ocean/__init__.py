"""Prepared data: the cube, its anomalies, tiles and training windows, splits, places and observations."""
