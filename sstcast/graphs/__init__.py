"""Graphs as the layers see them: `graph.Graph`, `grid.GridGraph`, `sparse.SparseGraph`."""
