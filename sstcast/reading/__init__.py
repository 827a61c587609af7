"""Reading daily fields: sources, variables, units, calendars and grids, as arrays `[time, lat, lon]`."""
