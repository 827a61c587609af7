"""HTML pages of scores and forecasts, and the pictures in them."""
