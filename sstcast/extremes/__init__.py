"""Marine heatwaves and cold spells, their events and baselines, heat stress, and thirds of weeks."""
