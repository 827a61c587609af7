"""From the last days of SST to a forecast on the map."""
