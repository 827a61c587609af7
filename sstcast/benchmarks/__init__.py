"""The same backbones on other graphs: molecules, long-range graphs, social networks, and users' own data."""
