"""Graphs as layers see them: the interface `graph.Graph`, and its implementations for grids and edge lists."""
