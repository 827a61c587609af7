"""Graphs as the layers use them: `graph.Graph`, `grid.GridGraph`, `sparse.SparseGraph`."""
