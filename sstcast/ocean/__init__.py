"""SST data: reading, anomalies, tiles, training windows and marine heatwaves."""
